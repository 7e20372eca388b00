//! Targets of a dataset: machines by name or by the text the database knows them by.

use talweg_target::{Isa, Target};

/// This machine, restricted to an instruction set by its name; `None` where it cannot run that.
pub fn restricted(name: &str) -> Result<Target, talweg_target::TargetError> {
    let host = Target::host();
    let named = Target::named(name)?;
    if named.isa == host.isa {
        return Ok(host);
    }
    let target = Target {
        cpu: host.cpu,
        cores: host.cores,
        l1d: host.l1d,
        l2: host.l2,
        l3: host.l3,
        line: host.line,
        ..named
    };
    target.can_run_here()?;
    Ok(target)
}

/// The target of a fingerprint, as far as schedules and features depend on it; `None` for texts that are none.
pub fn from_fingerprint(text: &str) -> Option<Target> {
    let host = Target::host();
    if host.fingerprint() == text {
        return Some(host);
    }
    let mut parts = text.split(';');
    let (_, isa, cpu) = (parts.next()?, parts.next()?, parts.next()?);
    let isa = [Isa::Avx512, Isa::Avx2, Isa::Neon].into_iter().find(|i| i.name() == isa)?;
    let mut target = Target { cpu: cpu.to_string(), ..Target::generic(isa) };
    for part in parts {
        let (name, number) = part.split_once('=')?;
        let number: u64 = number.parse().ok()?;
        match name {
            "cores" => target.cores = u32::try_from(number).ok()?,
            "l1d" => target.l1d = number,
            "l2" => target.l2 = number,
            "l3" => target.l3 = number,
            _ => return None,
        }
    }
    (target.fingerprint() == text).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_back() {
        for target in [Target::host(), Target::generic(Isa::Avx2), Target::generic(Isa::Neon)] {
            let text = target.fingerprint();
            assert_eq!(from_fingerprint(&text).map(|t| t.fingerprint()), Some(text));
        }
        for bad in ["", "x86-64;avx2", "x86-64;mmx;cpu;cores=2", "x86-64;avx2;cpu;cores=two;l1d=1;l2=1;l3=1"]
        {
            assert_eq!(from_fingerprint(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_machine_can_be_restricted() {
        assert_eq!(restricted("host").map(|t| t.isa), Ok(Target::host().isa));
        assert!(restricted("pdp11").is_err());
        if Target::host().isa == Isa::Avx512 {
            let narrow = restricted("avx2").unwrap();
            assert_eq!((narrow.isa, narrow.l2), (Isa::Avx2, Target::host().l2));
        }
    }
}
