//! Prints the nest of a matmul schedule.
use talweg_ir::*;
use talweg_schedule::*;
fn main() {
    let mut d = Dag::new("mm");
    let a = d.input("A", DType::F32, &[1024, 1024]);
    let b = d.constant("B", DType::F32, &[1024, 1024]);
    let c = d.reduce("C", &[("i", 1024), ("j", 1024)], Reducer::Sum, &[("k", 1024)], |x, r| {
        Scalar::Read(a, vec![x[0].clone(), r[0].clone()]) * Scalar::Read(b, vec![r[0].clone(), x[1].clone()])
    });
    d.mark_output(c);
    let text = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    let t = Trace::parse(&text).unwrap();
    let s = Schedule::replay(d, &t).unwrap();
    let n = s.lower().unwrap();
    println!("{n}");
    let n = concrete::concretize(&n, &|_| Some(16)).unwrap();
    println!("{n}");
}
