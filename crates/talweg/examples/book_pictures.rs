//! Draws the pictures of the book from the code: `cargo run --release -p talweg --example book_pictures -- docs/src/images`.
//!
//! `pipeline.svg` is one operator on its way through the stages; `nest-plain.svg` and `nest-default.svg` are its loop
//! nest before and after the analytic default schedule. A test compares the files in the book with what this draws.

use std::error::Error;
use std::path::Path;

use talweg_ir::{LoopKind, Nest, Stmt};
use talweg_ops::Spec;
use talweg_schedule::{Schedule, Trace, analytic};
use talweg_space::Space;
use talweg_target::{Isa, Target};

const SPEC: &str = "matmul:m=512,n=512,k=512,epilogue=bias+relu";
const LINE: usize = 22;
const PAD: usize = 8;
const STYLE: &str = "font-family=\"monospace\" font-size=\"12\"";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: book_pictures FOLDER")?;
    let target = Target::generic(Isa::Avx512);
    let dag = Spec::parse(SPEC)?.build()?;
    let trace = analytic::default_trace(&dag, &target);
    let plain = Schedule::replay(dag.clone(), &Trace::default())?.lower()?;
    let tuned = Schedule::replay(dag.clone(), &trace)?.lower()?;
    let space = Space::of(&dag, &target);
    let knobs: usize = space.sketches.iter().map(|s| s.knobs.len()).sum();
    let stages = [
        ("SPEC", "an operator as text".to_string(), "ops"),
        ("Dag", format!("{} tensors", dag.tensors.len()), "ops"),
        ("Space", format!("{} sketches, {knobs} knobs", space.sketches.len()), "space"),
        ("Trace", format!("{} steps", trace.steps.len()), "schedule"),
        ("Nest", format!("{} loops", count_loops(&tuned.body)), "schedule"),
        ("object", "machine code".to_string(), "codegen"),
        ("Samples", "checked, then timed".to_string(), "measure"),
    ];
    let pictures = [
        ("pipeline.svg", pipeline(&stages)),
        ("nest-plain.svg", nest(&plain)),
        ("nest-default.svg", nest(&tuned)),
    ];
    for (name, picture) in pictures {
        talweg_artifact::write_whole(&Path::new(&folder).join(name), |mut file| {
            std::io::Write::write_all(&mut file, picture.as_bytes())
        })?;
    }
    Ok(())
}

fn count_loops(body: &[Stmt]) -> usize {
    body.iter()
        .map(|stmt| match stmt {
            Stmt::For(l) => 1 + count_loops(&l.body),
            Stmt::If { then, otherwise, .. } => count_loops(then) + count_loops(otherwise),
            _ => 0,
        })
        .sum()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn svg(width: usize, height: usize, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// Boxes in a row, with the crate that makes each below.
fn pipeline(stages: &[(&str, String, &str)]) -> String {
    let (wide, high, gap) = (150, 62, 26);
    let mut out = String::new();
    for (at, (name, about, maker)) in stages.iter().enumerate() {
        let x = 10 + at * (wide + gap);
        let middle = x + wide / 2;
        out += &format!(
            "<rect x=\"{x}\" y=\"10\" width=\"{wide}\" height=\"{high}\" rx=\"6\" fill=\"#e8f0fe\" stroke=\"#4a6fa5\"/>\n\
             <text x=\"{middle}\" y=\"34\" text-anchor=\"middle\" {STYLE} font-weight=\"bold\">{}</text>\n\
             <text x=\"{middle}\" y=\"54\" text-anchor=\"middle\" {STYLE}>{}</text>\n\
             <text x=\"{middle}\" y=\"92\" text-anchor=\"middle\" {STYLE} fill=\"#666666\">{maker}</text>\n",
            escape(name),
            escape(about)
        );
        if at > 0 {
            let from = x - gap;
            out += &format!(
                "<path d=\"M{} 41 H{} l-5 -4 m5 4 l-5 4\" stroke=\"#4a6fa5\" fill=\"none\"/>\n",
                from + 3,
                x - 3
            );
        }
    }
    svg(20 + stages.len() * (wide + gap) - gap, 104, &out)
}

/// A nest as boxes within boxes: a loop is a box around what it repeats.
fn nest(nest: &Nest) -> String {
    let width = 760;
    let mut out = String::new();
    let height = blocks(nest, &nest.body, PAD, PAD, width - 2 * PAD, &mut out);
    svg(width, height + 2 * PAD, &out)
}

/// Draws statements below each other, and says how high they are.
fn blocks(nest: &Nest, body: &[Stmt], x: usize, y: usize, width: usize, out: &mut String) -> usize {
    let mut used = 0;
    for stmt in body {
        let top = y + used;
        used += match stmt {
            Stmt::For(l) => {
                let (word, fill) = match l.kind {
                    LoopKind::Serial => ("for", "#f4f4f4"),
                    LoopKind::Parallel => ("parallel", "#dbe9ff"),
                    LoopKind::Vectorize => ("vectorize", "#dff5e1"),
                    LoopKind::Unroll => ("unroll", "#fff0d6"),
                    LoopKind::Bind(axis) => (axis.name(), "#f0e0ff"),
                };
                let mut inner = String::new();
                let high =
                    blocks(nest, &l.body, x + PAD, top + LINE, width - 2 * PAD, &mut inner) + LINE + PAD;
                *out += &format!(
                    "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{high}\" rx=\"4\" fill=\"{fill}\" stroke=\"#999999\"/>\n\
                     <text x=\"{}\" y=\"{}\" {STYLE}>{}</text>\n{inner}",
                    x + PAD,
                    top + 15,
                    escape(&format!("{word} {} in 0..{}", l.var.name(), l.extent))
                );
                high + PAD / 2
            }
            Stmt::If { then, otherwise, .. } => {
                let first = blocks(nest, then, x, top, width, out);
                first + blocks(nest, otherwise, x, top + first, width, out)
            }
            Stmt::Store { buffer, update, .. } => {
                let sign = if update.is_some() { "+=" } else { "=" };
                text(out, x, top, &format!("{}[...] {sign} ...", nest.buffer(*buffer).name))
            }
            Stmt::Alloc(buffer) => text(out, x, top, &format!("alloc {}", nest.buffer(*buffer).name)),
        };
    }
    used
}

fn text(out: &mut String, x: usize, y: usize, line: &str) -> usize {
    *out += &format!(
        "<text x=\"{}\" y=\"{}\" {STYLE} font-weight=\"bold\">{}</text>\n",
        x + PAD,
        y + 15,
        escape(line)
    );
    LINE
}
