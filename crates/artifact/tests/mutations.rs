//! A short run of mutated artefacts: each loads or is refused with a text.

mod mutants;

use std::sync::Arc;

use mutants::{Random, Seed, artefact};
use talweg_runtime::model::{Model, Session, SessionOptions};

#[test]
fn mutants_load_or_are_refused() {
    let seed = Seed::new(&artefact());
    let mut random = Random::new(1);
    let (mut loaded, mut refused) = (0, std::collections::BTreeSet::new());
    for at in 0..3000 {
        match Model::from_bytes(&seed.mutant(&mut random)) {
            Ok(model) => {
                loaded += 1;
                let manifest = model.manifest();
                let workspace = manifest.kernels.iter().map(|k| k.shared_bytes.max(k.scratch_bytes)).max();
                if manifest.arena_bytes.max(workspace.unwrap_or(0)) <= 1 << 20 {
                    let session = Session::new(Arc::new(model), &SessionOptions { threads: 1, pin: false });
                    assert!(session.is_ok() || !session.err().unwrap().to_string().is_empty(), "mutant {at}");
                }
            }
            Err(error) => {
                let text = error.to_string();
                assert!(!text.contains("checksum"), "mutant {at} has a wrong checksum: {text}");
                refused.insert(text.chars().filter(|c| c.is_alphabetic()).take(40).collect::<String>());
            }
        }
    }
    // Both show that mutants get past the checksums and reach many different checks.
    assert!(loaded > 100, "only {loaded} mutants loaded");
    assert!(refused.len() > 20, "only {} kinds of refusal", refused.len());
}
