//! Strategies with their settings, and the parts of felix to be switched.

use talweg_tuner::{ModelKind, StrategyKind};

/// A search that takes part: its name in reports, and what `talweg tune` is given for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contestant {
    /// Its name; letters, digits, `+` and `-`.
    pub name: String,
    /// Options of `talweg tune`.
    pub arguments: Vec<String>,
    /// It has this part of the time that the reference took: half for 2; its whole budget for 1.
    pub share: u32,
}

impl Contestant {
    /// A strategy, with a model of its own or another.
    pub fn of(strategy: StrategyKind, model: Option<ModelKind>) -> Contestant {
        let mut arguments = vec!["--strategy".to_string(), strategy.name().to_string()];
        let mut name = strategy.name().to_string();
        if let Some(model) = model {
            arguments.extend(["--model".to_string(), model.name().to_string()]);
            name += &format!("+{}", model.name());
        }
        Contestant { name, arguments, share: 1 }
    }

    /// The same search with a part of the reference's time.
    pub fn with_share(&self, share: u32) -> Contestant {
        let name = if share == 1 { self.name.clone() } else { format!("{}-{share}", self.name) };
        Contestant { name, share, ..self.clone() }
    }

    /// Felix as it is, and with one part switched at a time.
    pub fn ablation() -> Vec<Contestant> {
        let variants: [(&str, &[&str]); 10] = [
            ("felix", &[]),
            ("fixed-width", &["--felix", "fixed-width"]),
            ("rewrites", &["--felix", "rewrites"]),
            ("bootstrapped", &["--model", "mlp-bootstrap"]),
            ("network-alone", &["--model", "mlp"]),
            ("no-repair", &["--felix", "no-repair"]),
            ("perfect-tiles", &["--tiles", "perfect"]),
            ("early-descent", &["--felix", "early-descent"]),
            ("no-descent", &["--felix", "no-descent"]),
            ("no-growth", &["--felix", "no-growth"]),
        ];
        let contestant = |(name, more): (&str, &[&str])| {
            let mut contestant = Contestant::of(StrategyKind::Felix, None);
            contestant.name = name.to_string();
            contestant.arguments.extend(more.iter().map(|a| a.to_string()));
            contestant
        };
        variants.map(contestant).to_vec()
    }
}
