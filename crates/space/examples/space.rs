//! Prints the space of an operator, or with a seed one random schedule of it:
//! `cargo run -p talweg-space --example space -- matmul:m=64,n=64,k=64 [SEED]`.

use std::error::Error;

use talweg_ops::spec::Spec;
use talweg_space::{Rng, Space};
use talweg_target::Target;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let text = args.next().unwrap_or_else(|| "matmul:m=1024,n=1024,k=1024".into());
    let space = Space::of(&Spec::parse(&text)?.build()?, &Target::host());
    match args.next() {
        None => println!("{space}"),
        Some(seed) => {
            let candidate = space.sample(&mut Rng::new(seed.parse()?));
            let sketch = &space.sketch(&candidate)?.name;
            println!("# {text}\n# {candidate} ({sketch})\n{}", space.trace(&candidate)?);
        }
    }
    Ok(())
}
