//! A candidate: the number of a sketch and a value for each of its knobs. Text form: `2:1,43,6`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::SpaceError;

/// One point of a space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    /// Position in [`crate::Space::sketches`].
    pub sketch: usize,
    /// One value for each knob of the sketch, in order.
    pub values: Vec<i64>,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.sketch)?;
        for (at, v) in self.values.iter().enumerate() {
            write!(f, "{}{v}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Candidate {
    type Err = SpaceError;

    fn from_str(text: &str) -> Result<Candidate, SpaceError> {
        let fail = || SpaceError::Parse { text: text.to_string() };
        let (sketch, values) = text.trim().split_once(':').ok_or_else(fail)?;
        let sketch = sketch.trim().parse().map_err(|_| fail())?;
        let values = match values.trim() {
            "" => Vec::new(),
            list => {
                list.split(',').map(|v| v.trim().parse().map_err(|_| fail())).collect::<Result<_, _>>()?
            }
        };
        Ok(Candidate { sketch, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_back() {
        for c in [
            Candidate { sketch: 0, values: vec![] },
            Candidate { sketch: 3, values: vec![1] },
            Candidate { sketch: 12, values: vec![16, 4, 1024] },
        ] {
            assert_eq!(c.to_string().parse::<Candidate>(), Ok(c));
        }
        for bad in ["", "1", "x:1", "1:a", "1:1,,2"] {
            let e = bad.parse::<Candidate>().expect_err(bad).to_string();
            assert!(e.contains("SKETCH:VALUE"), "{e}");
        }
    }
}
