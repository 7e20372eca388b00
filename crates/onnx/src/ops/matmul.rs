//! Products: `MatMul`, `Gemm`, `Einsum`, `MatMulInteger`.

use std::collections::BTreeMap;

use talweg_tensor::Op;

use super::{Entry, entry};
use crate::call::{Call, Outputs};
use crate::error::Failure;

pub(super) const ENTRIES: &[Entry] = &[
    entry("Einsum", 12, einsum),
    entry("Gemm", 7, gemm),
    entry("MatMul", 1, matmul),
    entry("MatMulInteger", 10, matmul_integer),
];

fn matmul(call: &mut Call) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    Ok(vec![call.builder.matmul(a, b)?])
}

/// `alpha * a' @ b' + beta * c`.
fn gemm(call: &mut Call) -> Outputs {
    let (mut a, mut b) = (call.input(0)?, call.input(1)?);
    if call.rank(a) != 2 || call.rank(b) != 2 {
        return Err(Failure::invalid("the operands must be matrices"));
    }
    if call.flag("transA", false)? {
        a = call.builder.transpose(a, vec![1, 0])?;
    }
    if call.flag("transB", false)? {
        b = call.builder.transpose(b, vec![1, 0])?;
    }
    let alpha = f64::from(call.float_or("alpha", 1.0)?);
    let beta = f64::from(call.float_or("beta", 1.0)?);
    let product = call.builder.matmul(a, b)?;
    let product = call.builder.scaled(product, alpha)?;
    match call.optional(2) {
        Some(c) if beta != 0.0 => {
            let c = call.builder.scaled(c, beta)?;
            Ok(vec![call.builder.add(product, c)?])
        }
        _ => Ok(vec![product]),
    }
}

fn matmul_integer(call: &mut Call) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let mut a_zero = call.optional(2);
    if let Some(zero) = a_zero
        && let &[rows] = call.shape(zero).as_slice()
        && rows > 1
    {
        a_zero = Some(call.builder.reshape(zero, vec![rows, 1])?);
    }
    let inputs = [Some(a), Some(b), a_zero, call.optional(3)];
    Ok(vec![call.builder.one_of(Op::MatMulInteger, &inputs)?])
}

fn einsum(call: &mut Call) -> Outputs {
    let equation = call.text("equation")?.ok_or_else(|| Failure::invalid("`equation` is missing"))?;
    let mut operands = Vec::new();
    let mut ranks = Vec::new();
    for i in 0..call.inputs.len() {
        let operand = call.input(i)?;
        ranks.push(call.rank(operand));
        operands.push(operand);
    }
    let equation = explicit(&equation, &ranks)?;
    Ok(vec![call.builder.one(Op::Einsum { equation }, &operands)?])
}

/// The equation with an arrow, without spaces, and with letters in the place of every ellipsis.
fn explicit(equation: &str, ranks: &[usize]) -> Result<String, Failure> {
    let bad = |why: &str| Failure::invalid(format!("the equation `{equation}` {why}"));
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != ranks.len() {
        return Err(bad(&format!("has {} terms for {} operands", terms.len(), ranks.len())));
    }
    let letters = |term: &str| term.replacen("...", "", 1);
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for letter in terms.iter().flat_map(|term| letters(term).chars().collect::<Vec<_>>()) {
        if !letter.is_ascii_alphabetic() {
            return Err(bad(&format!("has the subscript `{letter}`")));
        }
        *counts.entry(letter).or_default() += 1;
    }
    let mut hidden = 0usize;
    let mut widths = Vec::new();
    for (term, &rank) in terms.iter().zip(ranks) {
        let named = letters(term).len();
        let width = if term.contains("...") { rank.checked_sub(named) } else { (rank == named).then_some(0) };
        let width =
            width.ok_or_else(|| bad(&format!("has the term `{term}` for an operand of rank {rank}")))?;
        hidden = hidden.max(width);
        widths.push(width);
    }
    let spare: Vec<char> =
        ('A'..='Z').chain('a'..='z').filter(|c| !counts.contains_key(c)).take(hidden).collect();
    if spare.len() < hidden {
        return Err(bad("has more subscripts than there are letters"));
    }
    let all: String = spare.iter().collect();
    let inputs: Vec<String> = terms
        .iter()
        .zip(widths)
        .map(|(term, width)| term.replacen("...", &all[hidden - width..], 1))
        .collect();
    let output = match right {
        Some(right) => right.replacen("...", &all, 1),
        None => {
            let once = counts.iter().filter(|&(_, &count)| count == 1).map(|(&letter, _)| letter);
            all.chars().chain(once).collect()
        }
    };
    if let Some(letter) = output.chars().find(|c| !all.contains(*c) && !counts.contains_key(c)) {
        return Err(bad(&format!("has `{letter}` in its result only")));
    }
    Ok(format!("{}->{output}", inputs.join(",")))
}

#[cfg(test)]
mod tests {
    use super::explicit;

    #[test]
    fn equations_become_explicit() {
        let check = |equation: &str, ranks: &[usize]| explicit(equation, ranks).ok();
        assert_eq!(check("ij, jk", &[2, 2]).as_deref(), Some("ij,jk->ik"));
        assert_eq!(check("...ii->...i", &[3]).as_deref(), Some("Aii->Ai"));
        assert_eq!(check("...ij,...jk", &[4, 3]).as_deref(), Some("ABij,Bjk->ABik"));
        assert_eq!(check("ba", &[2]).as_deref(), Some("ba->ab"));
        assert_eq!(check("ij->k", &[2]), None);
        assert_eq!(check("ij", &[3]), None);
        assert_eq!(check("i1", &[2]), None);
    }
}
