//! The table of nodes is safe under threads and holds nothing that nobody holds. One test in a process of its own:
//! it counts all nodes alive.

use std::sync::Barrier;

use talweg_expr::Expr;

fn build(round: i64) -> Vec<Expr> {
    let (x, y, k) = (Expr::var("x"), Expr::var("y"), Expr::knob("k"));
    (0..20)
        .map(|i| {
            let sum = x.clone() * i + y.clone() * (round % 7) + k.clone() * &x;
            sum.floor_div(&k).max(sum.rem(5)).min(sum.ceil_div(i + 2)) + i
        })
        .collect()
}

#[test]
fn threads_that_build_and_drop_the_same_expressions_share_them_and_leave_none() {
    assert_eq!(Expr::live_nodes(), 0);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for round in 0..300 {
                    let (a, b) = (build(round), build(round));
                    assert_eq!(a, b, "thread {thread}, round {round}");
                    let text: Vec<String> = a.iter().map(Expr::to_string).collect();
                    drop(a);
                    let again: Vec<String> = b.iter().map(Expr::to_string).collect();
                    assert_eq!(text, again);
                }
            });
        }
    });
    assert_eq!(Expr::live_nodes(), 0);
}
