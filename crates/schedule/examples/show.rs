//! Prints the default schedule of an operator and its loop nest.
use talweg_ops::Spec;
use talweg_schedule::{Schedule, analytic, concrete};
use talweg_target::Target;

fn main() {
    for text in std::env::args().skip(1) {
        let dag = Spec::parse(&text).and_then(|s| s.build()).expect("a legal SPEC");
        println!("{dag}");
        let trace = analytic::default_trace(&dag, &Target::host());
        println!("{trace}");
        let nest = Schedule::replay(dag, &trace).expect("the default is legal").lower().expect("and lowers");
        println!("{}", concrete::concretize(&nest, &|_| None).expect("no knobs"));
    }
}
