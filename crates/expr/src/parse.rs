//! Parsing expressions; the grammar is what [`crate::text`] prints, and a little more.
//!
//! Accepted beyond what is printed: `a - b`, `-a`, `a > b`, `a >= b`, `!a`. Comparisons do not chain. `true`,
//! `false`, `inf` and `nan` are constants; a name followed by `(` is a function; every other name is a variable.

use crate::lexer::{Lexer, ParseError, Token};
use crate::node::{BinaryOp, Expr, UnaryOp};
use crate::text::{AND, COMPARE, OR, PRODUCT, SUM};

/// An expression may be this high; higher ones would overflow the stack of the recursive passes.
const MAX_HEIGHT: u32 = 2000;

impl Expr {
    /// Parses a whole text as one expression.
    pub fn parse(text: &str) -> Result<Expr, ParseError> {
        let mut lexer = Lexer::new(text);
        let e = parse_expr(&mut lexer)?;
        if lexer.at_end() { Ok(e) } else { Err(lexer.unexpected("an operator or the end of the text")) }
    }
}

/// Parses the longest expression at the lexer, and leaves it at the token after.
pub fn parse_expr(lexer: &mut Lexer<'_>) -> Result<Expr, ParseError> {
    parse_level(lexer, OR)
}

/// What an infix token does: its level, and how it combines two operands.
enum Infix {
    Op(BinaryOp),
    Swapped(BinaryOp),
    Minus,
}

fn infix(token: &Token<'_>) -> Option<(u8, Infix)> {
    let Token::Punct(p) = token else { return None };
    Some(match *p {
        "||" => (OR, Infix::Op(BinaryOp::Or)),
        "&&" => (AND, Infix::Op(BinaryOp::And)),
        "<" => (COMPARE, Infix::Op(BinaryOp::Lt)),
        "<=" => (COMPARE, Infix::Op(BinaryOp::Le)),
        ">" => (COMPARE, Infix::Swapped(BinaryOp::Lt)),
        ">=" => (COMPARE, Infix::Swapped(BinaryOp::Le)),
        "==" => (COMPARE, Infix::Op(BinaryOp::Eq)),
        "!=" => (COMPARE, Infix::Op(BinaryOp::Ne)),
        "+" => (SUM, Infix::Op(BinaryOp::Add)),
        "-" => (SUM, Infix::Minus),
        "*" => (PRODUCT, Infix::Op(BinaryOp::Mul)),
        "/" => (PRODUCT, Infix::Op(BinaryOp::Div)),
        "//" => (PRODUCT, Infix::Op(BinaryOp::FloorDiv)),
        "%" => (PRODUCT, Infix::Op(BinaryOp::Mod)),
        _ => return None,
    })
}

/// Parses operators at `min` and tighter; all are left-associative.
fn parse_level(lexer: &mut Lexer<'_>, min: u8) -> Result<Expr, ParseError> {
    let mut left = parse_unary(lexer)?;
    let mut last = u8::MAX;
    while let Some((level, op)) = infix(lexer.peek()).filter(|(level, _)| *level >= min) {
        if level == COMPARE && last == COMPARE {
            return Err(lexer.error("comparisons do not chain; put one of them in parentheses"));
        }
        last = level;
        let at = lexer.clone();
        lexer.take();
        let right = parse_level(lexer, level + 1)?;
        left = match op {
            Infix::Op(op) => Expr::binary(op, left, right),
            Infix::Swapped(op) => Expr::binary(op, right, left),
            Infix::Minus => left - right,
        };
        if left.height() > MAX_HEIGHT {
            return Err(at.error(format!("expression is nested deeper than {MAX_HEIGHT} operators")));
        }
    }
    Ok(left)
}

fn parse_unary(lexer: &mut Lexer<'_>) -> Result<Expr, ParseError> {
    lexer.enter()?;
    let e = if lexer.at("-") {
        match following(lexer) {
            Token::Int(_) => Expr::int(lexer.integer()?),
            Token::Float(_) | Token::Ident("inf" | "nan") => Expr::real(lexer.number()?),
            _ => {
                lexer.take();
                -parse_unary(lexer)?
            }
        }
    } else if lexer.eat("!") {
        Expr::unary(UnaryOp::Not, parse_unary(lexer)?)
    } else {
        parse_atom(lexer)?
    };
    lexer.leave();
    Ok(e)
}

/// The token after the next one.
fn following<'a>(lexer: &Lexer<'a>) -> Token<'a> {
    let mut ahead = lexer.clone();
    ahead.take();
    ahead.take()
}

fn parse_atom(lexer: &mut Lexer<'_>) -> Result<Expr, ParseError> {
    match *lexer.peek() {
        Token::Int(_) => Ok(Expr::int(lexer.integer()?)),
        Token::Float(_) | Token::Ident("inf" | "nan") => Ok(Expr::real(lexer.number()?)),
        Token::Knob(name) => {
            lexer.take();
            Ok(Expr::knob(name))
        }
        Token::Ident(name) => {
            if following(lexer) == Token::Punct("(") {
                return parse_call(lexer, name);
            }
            lexer.take();
            Ok(match name {
                "true" => Expr::bool(true),
                "false" => Expr::bool(false),
                _ => Expr::var(name),
            })
        }
        Token::Punct("(") => {
            lexer.take();
            let e = parse_expr(lexer)?;
            lexer.expect(")")?;
            Ok(e)
        }
        _ => Err(lexer.unexpected("an expression")),
    }
}

/// What a function name stands for.
enum Function {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Select,
}

fn function(name: &str) -> Option<Function> {
    use Function::{Binary, Select, Unary};
    Some(match name {
        "not" => Unary(UnaryOp::Not),
        "log" => Unary(UnaryOp::Log),
        "exp" => Unary(UnaryOp::Exp),
        "sqrt" => Unary(UnaryOp::Sqrt),
        "abs" => Unary(UnaryOp::Abs),
        "ceildiv" => Binary(BinaryOp::CeilDiv),
        "min" => Binary(BinaryOp::Min),
        "max" => Binary(BinaryOp::Max),
        "pow" => Binary(BinaryOp::Pow),
        "select" => Select,
        _ => return None,
    })
}

fn parse_call(lexer: &mut Lexer<'_>, name: &str) -> Result<Expr, ParseError> {
    let Some(function) = function(name) else {
        return Err(lexer.error(format!(
            "unknown function `{name}`, expected one of not, log, exp, sqrt, abs, ceildiv, min, max, pow, select"
        )));
    };
    lexer.take();
    lexer.expect("(")?;
    let a = parse_expr(lexer)?;
    let e = match function {
        Function::Unary(op) => Expr::unary(op, a),
        Function::Binary(op) => {
            lexer.expect(",")?;
            Expr::binary(op, a, parse_expr(lexer)?)
        }
        Function::Select => {
            lexer.expect(",")?;
            let b = parse_expr(lexer)?;
            lexer.expect(",")?;
            Expr::select(a, b, parse_expr(lexer)?)
        }
    };
    lexer.expect(")")?;
    Ok(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(text: &str) {
        let e = Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(e.to_string(), text);
    }

    fn error(text: &str) -> String {
        match Expr::parse(text) {
            Ok(e) => panic!("{text} parsed as {e}"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn canonical_text_is_unchanged() {
        for text in [
            "i * 4 + j",
            "x * -3 + -7",
            "-9223372036854775808",
            "(i + j) // $t * 3 + i % 5",
            "select(i < 3 && (j <= 2 || not(i < 3 && j < 2)), i // 2, -1)",
            "exp(i / 2) + -0.5",
            "pow(log(i + 1.5), 1e-5)",
            "max(ceildiv(a, $b), min(a, b))",
            "(a < b) == (b < c)",
            "select(true == (a < b), inf, -inf)",
            "nan",
            "a.b.0 + c",
        ] {
            same(text);
        }
    }

    #[test]
    fn sugar_is_what_it_stands_for() {
        for (text, canonical) in [
            ("a - b - 1", "a + b * -1 + -1"),
            ("-(a + 1)", "a * -1 + -1"),
            ("a > b", "b < a"),
            ("a >= b", "b <= a"),
            ("!(a < b)", "b <= a"),
            ("a # comment\n + 1", "a + 1"),
            ("--3", "3"),
        ] {
            assert_eq!(Expr::parse(text).map(|e| e.to_string()), Ok(canonical.to_string()), "{text}");
        }
    }

    #[test]
    fn errors_say_where_and_what() {
        assert_eq!(error("a + "), "line 1, column 5: found the end of the text, expected an expression");
        assert_eq!(error("(a\n + b"), "line 2, column 5: found the end of the text, expected `)`");
        assert_eq!(error("a b"), "line 1, column 3: found `b`, expected an operator or the end of the text");
        assert!(error("foo(1)").starts_with("line 1, column 1: unknown function `foo`"));
        assert!(error("a < b < c").contains("do not chain"));
        assert!(error("min(a)").contains("expected `,`"));
        assert!(error("99999999999999999999").contains("does not fit"));
        assert!(error("9223372036854775808").contains("does not fit"));
    }

    #[test]
    fn bad_input_of_any_depth_is_an_error_and_no_overflow() {
        assert!(error(&"(".repeat(100_000)).contains("nested deeper"));
        assert!(error(&"-".repeat(100_000)).contains("nested deeper"));
        assert!(error(&format!("x{}", " / 2".repeat(100_000))).contains("nested deeper"));
    }

    #[test]
    fn an_embedded_expression_ends_where_it_must() -> Result<(), ParseError> {
        let mut lexer = Lexer::new("i in 0..$n * 2 { }");
        let name = lexer.ident("a loop variable")?;
        lexer.expect_word("in")?;
        let lo = parse_expr(&mut lexer)?;
        lexer.expect("..")?;
        let hi = parse_expr(&mut lexer)?;
        assert_eq!((name, lo.to_string(), hi.to_string()), ("i", "0".into(), "$n * 2".into()));
        lexer.expect("{")
    }
}
