//! Prints the space of an operator: `cargo run -p talweg-space --example space -- matmul:m=64,n=64,k=64`.

use talweg_ops::spec::Spec;
use talweg_space::{Rng, Space};
use talweg_target::Target;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "matmul:m=1024,n=1024,k=1024".into());
    let target = Target::host();
    let space = Space::of(&Spec::parse(&text)?.build()?, &target);
    println!("{space}");
    let mut rng = Rng::new(0);
    for _ in 0..4 {
        let candidate = space.sample(&mut rng);
        println!("{candidate}\n{}", space.trace(&candidate)?);
    }
    Ok(())
}
