//! Parsing values, and what dags and nests share: names, types and lists.

use std::collections::HashMap;

use talweg_expr::lexer::{Lexer, ParseError, Token};
use talweg_expr::parse::parse_expr;
use talweg_expr::{Expr, Symbol};

use super::{CALLS, COMPARE, INFIX, OR, UNARY};
use crate::dtype::DType;
use crate::scalar::{MathOp, Scalar, TensorId};

/// A value may be this high; higher ones would overflow the stack of the recursive passes.
const MAX_HEIGHT: usize = 1000;

/// A parser over one text, knowing every tensor the text declares.
pub(super) struct Parser<'a> {
    pub lexer: Lexer<'a>,
    tensors: HashMap<String, TensorId>,
}

/// A value and how high its tree is.
struct Tall(Scalar, usize);

impl<'a> Parser<'a> {
    /// Finds all declarations (`name :`) ahead, so that values may read what is declared later.
    pub fn new(text: &'a str) -> Parser<'a> {
        let mut tensors = HashMap::new();
        let mut count = 0;
        let mut ahead = Lexer::new(text);
        while !ahead.at_end() {
            let name = match ahead.take() {
                Token::Ident(n) => n.to_string(),
                Token::Str(n) => n,
                _ => continue,
            };
            if ahead.at(":") {
                tensors.entry(name).or_insert(TensorId(count));
                count += 1;
            }
        }
        Parser { lexer: Lexer::new(text), tensors }
    }

    /// A name, quoted or not.
    pub fn name(&mut self, what: &str) -> Result<String, ParseError> {
        match self.lexer.peek() {
            Token::Ident(n) if !super::is_plain(n) => Err(self.lexer.error(format!(
                "found `{n}`, which is a word of the language, expected {what}; put it in quotes"
            ))),
            Token::Ident(_) => Ok(self.lexer.ident(what)?.to_string()),
            Token::Str(_) => self.lexer.string(what),
            _ => Err(self.lexer.unexpected(what)),
        }
    }

    /// The name of a tensor that is declared somewhere.
    pub fn tensor(&mut self) -> Result<TensorId, ParseError> {
        let at = self.lexer.clone();
        let name = self.name("the name of a tensor")?;
        self.tensors.get(&name).copied().ok_or_else(|| {
            at.error(format!("found `{name}`, which is not declared here, expected the name of a tensor"))
        })
    }

    pub fn dtype(&mut self) -> Result<DType, ParseError> {
        let at = self.lexer.clone();
        let word = self.lexer.ident("an element type")?;
        word.parse().map_err(|e| at.error(format!("{e}")))
    }

    /// A variable or a knob.
    pub fn symbol(&mut self, what: &str) -> Result<Symbol, ParseError> {
        match *self.lexer.peek() {
            Token::Knob(n) => {
                self.lexer.take();
                Ok(Symbol::knob(n))
            }
            _ => Ok(Symbol::var(self.lexer.ident(what)?)),
        }
    }

    pub fn expr(&mut self) -> Result<Expr, ParseError> {
        parse_expr(&mut self.lexer)
    }

    /// `[item, item, ...]`.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Parser<'a>) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        self.lexer.expect("[")?;
        let mut out = Vec::new();
        if self.lexer.eat("]") {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if self.lexer.eat("]") {
                return Ok(out);
            }
            if !self.lexer.eat(",") {
                return Err(self.lexer.unexpected("`,` or `]`"));
            }
        }
    }

    /// A value.
    pub fn value(&mut self) -> Result<Scalar, ParseError> {
        Ok(self.level(OR)?.0)
    }

    /// Operators at `min` and tighter.
    fn level(&mut self, min: u8) -> Result<Tall, ParseError> {
        let mut left = self.unary()?;
        let mut last = 0;
        loop {
            let Token::Punct(sign) = *self.lexer.peek() else { return Ok(left) };
            // `a > b` is another way to write `b < a`.
            let (sign, swapped) = match sign {
                ">" => ("<", true),
                ">=" => ("<=", true),
                s => (s, false),
            };
            let Some((_, level, op)) = INFIX.iter().find(|(s, ..)| *s == sign) else { return Ok(left) };
            if *level < min {
                return Ok(left);
            }
            if *level == COMPARE && last == COMPARE {
                return Err(self.lexer.error("comparisons do not chain; put one of them in parentheses"));
            }
            last = *level;
            self.lexer.take();
            let right = self.level(level + 1)?;
            let (a, b) = if swapped { (right, left) } else { (left, right) };
            left = self.tall(&[a.1, b.1], Scalar::binary(*op, a.0, b.0))?;
        }
    }

    fn tall(&self, heights: &[usize], value: Scalar) -> Result<Tall, ParseError> {
        let height = heights.iter().copied().max().unwrap_or(0) + 1;
        if height > MAX_HEIGHT {
            return Err(self.lexer.error(format!("value is nested deeper than {MAX_HEIGHT} operators")));
        }
        Ok(Tall(value, height))
    }

    fn unary(&mut self) -> Result<Tall, ParseError> {
        self.lexer.enter()?;
        let mut after = self.lexer.clone();
        after.take();
        let number = matches!(after.peek(), Token::Float(_) | Token::Int(_) | Token::Ident("inf" | "nan"));
        let out = if self.lexer.at("-") && !number {
            self.lexer.take();
            let a = self.unary()?;
            self.tall(&[a.1], Scalar::unary(MathOp::Neg, a.0))?
        } else if self.lexer.eat("!") {
            let a = self.unary()?;
            self.tall(&[a.1], Scalar::unary(MathOp::Not, a.0))?
        } else {
            self.atom(&after)?
        };
        self.lexer.leave();
        Ok(out)
    }

    /// `after` stands one token further.
    fn atom(&mut self, after: &Lexer<'a>) -> Result<Tall, ParseError> {
        let word = match *self.lexer.peek() {
            Token::Float(_) | Token::Punct("-") | Token::Ident("inf" | "nan") if !is_int(&self.lexer) => {
                return Ok(Tall(Scalar::f32(self.lexer.number()?), 1));
            }
            Token::Int(_) | Token::Punct("-") => {
                return Err(self.lexer.error(
                    "found an integer without a type; write `i32(3)` for an integer value, `3.0` for a float",
                ));
            }
            Token::Punct("(") => {
                self.lexer.take();
                let inner = self.level(OR)?;
                self.lexer.expect(")")?;
                return Ok(inner);
            }
            Token::Ident(word) if !after.at("[") => word,
            Token::Ident(_) | Token::Str(_) => {
                let t = self.tensor()?;
                let indices = self.list(Parser::expr)?;
                return Ok(Tall(Scalar::Read(t, indices), 1));
            }
            _ => return Err(self.lexer.unexpected("a value")),
        };
        if word == "true" || word == "false" {
            self.lexer.take();
            return Ok(Tall(Scalar::Int(i64::from(word == "true"), DType::Bool), 1));
        }
        if super::is_plain(word) && self.tensors.contains_key(word) {
            self.lexer.take();
            return Err(self.lexer.unexpected(&format!("`[` and the indices of `{word}`")));
        }
        self.call(word)
    }

    fn call(&mut self, word: &str) -> Result<Tall, ParseError> {
        let at = self.lexer.clone();
        let unknown = || {
            at.error(format!(
                "found `{word}`, which is neither a tensor nor a function, expected a value; an index is used as a \
                 value by `index.f32({word})`"
            ))
        };
        let unary = UNARY.iter().find(|(n, _)| *n == word);
        let binary = CALLS.iter().find(|(n, _)| *n == word);
        let (prefix, suffix) = word.split_once('.').unwrap_or((word, ""));
        self.lexer.take();
        if let Ok(d) = word.parse::<DType>() {
            return Ok(Tall(self.literal(d)?, 1));
        }
        if let Some((_, op)) = unary {
            let [a] = self.operands()?;
            return self.tall(&[a.1], Scalar::unary(*op, a.0));
        }
        if let Some((_, op)) = binary {
            let [a, b] = self.operands()?;
            return self.tall(&[a.1, b.1], Scalar::binary(*op, a.0, b.0));
        }
        match (prefix, suffix) {
            ("select", "") => {
                let [c, a, b] = self.operands()?;
                self.tall(&[c.1, a.1, b.1], Scalar::select(c.0, a.0, b.0))
            }
            ("cast", d) => {
                let d = d.parse::<DType>().map_err(|e| at.error(e.to_string()))?;
                let [a] = self.operands()?;
                self.tall(&[a.1], a.0.cast(d))
            }
            ("guard", "") => Ok(Tall(Scalar::Index(self.index()?, DType::Bool), 1)),
            ("index", d) => {
                let d = d.parse::<DType>().map_err(|e| at.error(e.to_string()))?;
                Ok(Tall(Scalar::Index(self.index()?, d), 1))
            }
            _ => Err(unknown()),
        }
    }

    fn index(&mut self) -> Result<Expr, ParseError> {
        self.lexer.expect("(")?;
        let e = self.expr()?;
        self.lexer.expect(")")?;
        Ok(e)
    }

    /// `(number)` after a type: integers are exact, numbers of float types may be written without a point.
    fn literal(&mut self, d: DType) -> Result<Scalar, ParseError> {
        self.lexer.expect("(")?;
        let value = if is_int(&self.lexer) && !d.is_float() {
            Scalar::Int(self.lexer.integer()?, d)
        } else {
            Scalar::Float(self.lexer.number()?, d)
        };
        self.lexer.expect(")")?;
        Ok(value)
    }

    /// `(value, value, ...)`, as many as asked for.
    fn operands<const N: usize>(&mut self) -> Result<[Tall; N], ParseError> {
        self.lexer.expect("(")?;
        let mut out = Vec::with_capacity(N);
        for at in 0..N {
            if at > 0 {
                self.lexer.expect(",")?;
            }
            out.push(self.level(OR)?);
        }
        self.lexer.expect(")")?;
        out.try_into().map_err(|_| self.lexer.unexpected("another operand"))
    }
}

/// Whether an integer, with an optional minus sign, is next.
fn is_int(lexer: &Lexer<'_>) -> bool {
    let mut ahead = lexer.clone();
    ahead.eat("-");
    matches!(ahead.peek(), Token::Int(_))
}

/// The reducer of an update or reduction, by name.
pub(super) fn reducer(word: &str) -> Option<crate::scalar::Reducer> {
    use crate::scalar::Reducer;
    Some(match word {
        "sum" => Reducer::Sum,
        "prod" => Reducer::Prod,
        "max" => Reducer::Max,
        "min" => Reducer::Min,
        _ => return None,
    })
}

/// The operator table and this parser must agree on what every operator is called.
#[cfg(test)]
#[test]
fn every_operator_has_one_spelling() {
    use crate::scalar::ArithOp::*;
    for op in [Add, Sub, Mul, Div, Rem, Max, Min, Pow, Lt, Le, Eq, Ne, And, Or] {
        let calls = CALLS.iter().filter(|(_, o)| *o == op).count();
        let infix = INFIX.iter().filter(|(_, _, o)| *o == op).count();
        assert_eq!(calls + infix, 1, "{op:?}");
    }
}
