//! Parsing dags and nests.

use std::str::FromStr;

use talweg_expr::lexer::{ParseError, Token};
use talweg_expr::{Expr, Symbol};

use super::scalar::{Parser, reducer};
use crate::nest::{Buffer, Loop, LoopKind, Nest, Pack, Role, Stmt, ThreadAxis};
use crate::scalar::Reducer;
use crate::te::{Axis, Compute, Dag, Reduction, Source, Tensor};

impl Dag {
    /// Parses the text of one dag; see [`crate::text`] for the grammar.
    pub fn parse(text: &str) -> Result<Dag, ParseError> {
        let mut p = Parser::new(text);
        p.lexer.expect_word("dag")?;
        let name = p.name("the name of the dag")?;
        p.lexer.expect("{")?;
        let mut tensors = Vec::new();
        while !p.lexer.eat("}") {
            tensors.push(tensor(&mut p)?);
        }
        p.lexer.expect_end()?;
        Ok(Dag { name, tensors })
    }
}

impl FromStr for Dag {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Dag, ParseError> {
        Dag::parse(text)
    }
}

fn axis(p: &mut Parser<'_>) -> Result<Axis, ParseError> {
    let symbol = p.symbol("an axis")?;
    p.lexer.expect("=")?;
    Ok(Axis { symbol, extent: p.expr()? })
}

fn tensor(p: &mut Parser<'_>) -> Result<Tensor, ParseError> {
    let output = p.lexer.eat_word("output");
    let given = match *p.lexer.peek() {
        Token::Ident("input") => Some(Source::Input),
        Token::Ident("const") => Some(Source::Const),
        _ => None,
    };
    if given.is_some() || !output {
        let word = p.lexer.clone();
        match p.lexer.take() {
            Token::Ident("input" | "const" | "compute") => {}
            _ => return Err(word.unexpected("`input`, `const`, `compute`, `output` or `}`")),
        }
    }
    let name = p.name("the name of a tensor")?;
    p.lexer.expect(":")?;
    let dtype = p.dtype()?;
    if let Some(source) = given {
        let shape = p.list(Parser::expr)?;
        return Ok(Tensor { name, dtype, shape, source, output });
    }
    let axes = p.list(axis)?;
    p.lexer.expect("=")?;
    let mut reduction = None;
    if let Token::Ident(word) = *p.lexer.peek()
        && let Some(reducer) = reducer(word)
    {
        let mut after = p.lexer.clone();
        after.take();
        if after.at("[") {
            p.lexer.take();
            reduction = Some(Reduction { reducer, axes: p.list(axis)? });
        }
    }
    let body = p.value()?;
    let shape: Vec<Expr> = axes.iter().map(|a| a.extent.clone()).collect();
    Ok(Tensor { name, dtype, shape, source: Source::Compute(Compute { axes, reduction, body }), output })
}

impl Nest {
    /// Parses the text of one nest; see [`crate::text`] for the grammar.
    pub fn parse(text: &str) -> Result<Nest, ParseError> {
        let mut p = Parser::new(text);
        p.lexer.expect_word("nest")?;
        let name = p.name("the name of the nest")?;
        p.lexer.expect("{")?;
        let mut buffers = Vec::new();
        while let Token::Ident(word) = *p.lexer.peek()
            && let Some(role) = role(word)
        {
            p.lexer.take();
            let name = p.name("the name of a buffer")?;
            p.lexer.expect(":")?;
            let dtype = p.dtype()?;
            buffers.push(Buffer { name, dtype, shape: p.list(Parser::expr)?, role });
        }
        let mut packs = Vec::new();
        while p.lexer.eat_word("pack") {
            let packed = p.tensor()?;
            let axes: Vec<Symbol> = p.list(|p| p.symbol("an axis"))?;
            p.lexer.expect("=")?;
            let source = p.tensor()?;
            packs.push(Pack { packed, source, axes, indices: p.list(Parser::expr)? });
        }
        let mut body = Vec::new();
        while !p.lexer.eat("}") {
            body.push(stmt(&mut p)?);
        }
        p.lexer.expect_end()?;
        Ok(Nest { name, buffers, packs, body })
    }
}

impl FromStr for Nest {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Nest, ParseError> {
        Nest::parse(text)
    }
}

fn role(word: &str) -> Option<Role> {
    Some(match word {
        "input" => Role::Input,
        "const" => Role::Const,
        "packed" => Role::Packed,
        "output" => Role::Output,
        "temp" => Role::Temp,
        "local" => Role::Local,
        _ => return None,
    })
}

fn block(p: &mut Parser<'_>) -> Result<Vec<Stmt>, ParseError> {
    p.lexer.enter()?;
    p.lexer.expect("{")?;
    let mut out = Vec::new();
    while !p.lexer.eat("}") {
        out.push(stmt(p)?);
    }
    p.lexer.leave();
    Ok(out)
}

fn loop_of(p: &mut Parser<'_>, kind: LoopKind) -> Result<Stmt, ParseError> {
    let var = p.symbol("a loop variable")?;
    p.lexer.expect_word("in")?;
    if *p.lexer.peek() != Token::Int(0) {
        return Err(p.lexer.unexpected("`0`, where every loop starts"));
    }
    p.lexer.take();
    p.lexer.expect("..")?;
    let extent = p.expr()?;
    Ok(Stmt::For(Loop { var, extent, kind, body: block(p)? }))
}

fn thread_axis(p: &mut Parser<'_>) -> Result<ThreadAxis, ParseError> {
    p.lexer.expect("(")?;
    let at = p.lexer.clone();
    let word = p.lexer.ident("a thread axis")?;
    let axis = ThreadAxis::ALL.into_iter().find(|a| a.name() == word).ok_or_else(|| {
        let names: Vec<&str> = ThreadAxis::ALL.iter().map(|a| a.name()).collect();
        at.error(format!("found `{word}`, expected one of {}", names.join(", ")))
    })?;
    p.lexer.expect(")")?;
    Ok(axis)
}

fn stmt(p: &mut Parser<'_>) -> Result<Stmt, ParseError> {
    let word = match *p.lexer.peek() {
        Token::Ident(word) => word,
        Token::Str(_) => "",
        _ => return Err(p.lexer.unexpected("a statement or `}`")),
    };
    let simple = match word {
        "for" => Some(LoopKind::Serial),
        "parallel" => Some(LoopKind::Parallel),
        "vectorize" => Some(LoopKind::Vectorize),
        "unroll" => Some(LoopKind::Unroll),
        _ => None,
    };
    if let Some(kind) = simple {
        p.lexer.take();
        return loop_of(p, kind);
    }
    match word {
        "bind" => {
            p.lexer.take();
            let axis = thread_axis(p)?;
            loop_of(p, LoopKind::Bind(axis))
        }
        "alloc" => {
            p.lexer.take();
            Ok(Stmt::Alloc(p.tensor()?))
        }
        "if" => {
            p.lexer.take();
            let condition = p.expr()?;
            let then = block(p)?;
            let otherwise = if p.lexer.eat_word("else") { block(p)? } else { Vec::new() };
            Ok(Stmt::If { condition, then, otherwise })
        }
        _ if role(word).is_some() || word == "pack" => {
            Err(p.lexer.error(format!("found `{word}`; buffers stand first, then packs, then statements")))
        }
        _ => store(p),
    }
}

fn store(p: &mut Parser<'_>) -> Result<Stmt, ParseError> {
    let buffer = p.tensor()?;
    let indices = p.list(Parser::expr)?;
    let update = match *p.lexer.peek() {
        Token::Punct("=") => None,
        Token::Punct("+=") => Some(Reducer::Sum),
        Token::Punct("*=") => Some(Reducer::Prod),
        Token::Ident("max") => Some(Reducer::Max),
        Token::Ident("min") => Some(Reducer::Min),
        _ => return Err(p.lexer.unexpected("`=`, `+=`, `*=`, `max=` or `min=`")),
    };
    p.lexer.take();
    if matches!(update, Some(Reducer::Max | Reducer::Min)) {
        p.lexer.expect("=")?;
    }
    Ok(Stmt::Store { buffer, indices, value: p.value()?, update })
}
