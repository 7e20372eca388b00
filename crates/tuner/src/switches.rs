//! Settings of felix by name, so that a part of it can be switched and what it is worth be measured.

use talweg_search::FelixParams;

use crate::strategy::UnknownName;

/// A setting: its name on the command line, what it does, and how.
pub struct Switch {
    /// The name.
    pub name: &'static str,
    /// What felix does with it, in a few words.
    pub help: &'static str,
    set: fn(&mut FelixParams),
}

/// All settings.
pub const SWITCHES: [Switch; 10] = [
    Switch {
        name: "fixed-width",
        help: "smooth formulas by the same width from the first step to the last",
        set: |felix| felix.descent.fix_width(),
    },
    Switch {
        name: "rewrites",
        help: "rewrite formulas by e-graph before they are smoothed: shorter ones, made more slowly",
        set: |felix| felix.formulas.rewrites = true,
    },
    Switch {
        name: "no-repair",
        help: "drop rounded points that violate a constraint",
        set: |felix| felix.descent.repair = false,
    },
    Switch {
        name: "no-neat",
        help: "round to the nearest sizes only, not to those that pad least",
        set: |felix| felix.descent.neat = false,
    },
    Switch {
        name: "no-polish",
        help: "measure rounded points as they are, without looking at their neighbours",
        set: |felix| felix.polish = 0,
    },
    Switch {
        name: "no-local",
        help: "measure what descent finds only, and no variations of the fastest measured",
        set: |felix| felix.local = 0.0,
    },
    Switch {
        name: "no-opening",
        help: "make all formulas before anything is measured",
        set: |felix| (felix.opening, felix.descends_from) = (0, 0),
    },
    Switch {
        name: "no-growth",
        help: "measure whole rounds from the second on",
        set: |felix| felix.grows = false,
    },
    Switch {
        name: "early-descent",
        help: "descend in every round but the opening",
        set: |felix| felix.descends_from = 0,
    },
    Switch {
        name: "no-descent",
        help: "take no step: the best-scored of random candidates, polished",
        set: |felix| felix.gradients = 0,
    },
];

/// Applies settings, given by their names with commas between them.
pub fn apply(felix: &mut FelixParams, names: &str) -> Result<(), UnknownName> {
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let known = || SWITCHES.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
        let found = SWITCHES.iter().find(|s| s.name == name);
        let switch = found.ok_or_else(|| UnknownName { name: name.into(), known: known() })?;
        (switch.set)(felix);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_changes_something() {
        for switch in &SWITCHES {
            let mut felix = FelixParams::default();
            apply(&mut felix, switch.name).expect("a known name");
            assert_ne!(felix, FelixParams::default(), "{}", switch.name);
        }
        let mut felix = FelixParams::default();
        apply(&mut felix, "no-repair, fixed-width").expect("known names");
        assert!(!felix.descent.repair && felix.descent.width.0 == felix.descent.width.1);
        assert!(apply(&mut felix, "").is_ok());
        let error = apply(&mut felix, "no-luck").expect_err("no such switch").to_string();
        assert!(error.contains("`no-luck`") && error.contains("no-repair"), "{error}");
    }
}
