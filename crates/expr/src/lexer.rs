//! A lexer for every text form of the project: it knows tokens and where they stand, and nothing of grammars.
//!
//! Spaces and line ends separate tokens, `#` starts a comment that runs to the end of the line (`//` is floor
//! division). An identifier may hold dots between its characters, so `i.outer` is one token and `a..b` is three.

use std::fmt;

use thiserror::Error;

/// Where a text stopped making sense, what was found there and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What was found and what was expected.
    pub message: String,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Bytes before it.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token<'a> {
    /// An identifier: a letter or `_`, then letters, digits, `_`, and dots that are followed by one of these.
    Ident(&'a str),
    /// `$name`, without the `$`.
    Knob(&'a str),
    /// Digits; a sign is a token of its own.
    Int(u64),
    /// Digits with a fraction, an exponent, or both.
    Float(f64),
    /// A string in double quotes, escapes (`\"`, `\\`, `\n`, `\t`) resolved.
    Str(String),
    /// One of [`PUNCTUATION`].
    Punct(&'static str),
    /// Something that is no token; says why.
    Bad(String),
    /// The end of the text.
    End,
}

/// All punctuation, longest first.
pub const PUNCTUATION: &[&str] = &[
    "//", "<=", ">=", "==", "!=", "&&", "||", "->", "=>", "..", "+=", "*=", "(", ")", "[", "]", "{", "}",
    "<", ">", "+", "-", "*", "/", "%", "=", ",", ":", ";", ".", "!", "?", "@", "&", "|", "^", "~",
];

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Ident(s) => write!(f, "`{s}`"),
            Token::Knob(s) => write!(f, "`${s}`"),
            Token::Int(v) => write!(f, "`{v}`"),
            Token::Float(v) => write!(f, "`{v:?}`"),
            Token::Str(s) => write!(f, "string {s:?}"),
            Token::Punct(p) => write!(f, "`{p}`"),
            Token::Bad(why) => f.write_str(why),
            Token::End => f.write_str("the end of the text"),
        }
    }
}

/// Reads tokens from a text, one token ahead. Cloning one is cheap, so a caller may try and come back.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    /// Where the text after `token` starts.
    next: Position,
    /// Where `token` starts.
    start: Position,
    /// Where the token before `token` ended.
    previous_end: usize,
    token: Token<'a>,
    /// How deep the grammar is nested at the moment; see [`Lexer::enter`].
    depth: usize,
}

/// Grammars may nest this deep before the text is refused, so that bad input cannot overflow the stack.
const MAX_DEPTH: usize = 400;

impl<'a> Lexer<'a> {
    /// A lexer that stands before the first token of `text`.
    pub fn new(text: &'a str) -> Lexer<'a> {
        let start = Position { offset: 0, line: 1, column: 1 };
        let mut lexer = Lexer { text, next: start, start, previous_end: 0, token: Token::End, depth: 0 };
        lexer.advance();
        lexer.previous_end = 0;
        lexer
    }

    /// The next token, left in place.
    pub fn peek(&self) -> &Token<'a> {
        &self.token
    }

    /// Where the next token starts.
    pub fn position(&self) -> Position {
        self.start
    }

    /// The text between two byte offsets; to keep what a caller has read verbatim.
    pub fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or("")
    }

    /// The byte offset at which the last token taken ended.
    pub fn previous_end(&self) -> usize {
        self.previous_end
    }

    /// True when all is read.
    pub fn at_end(&self) -> bool {
        self.token == Token::End
    }

    /// Takes the next token.
    pub fn take(&mut self) -> Token<'a> {
        let token = self.token.clone();
        self.advance();
        token
    }

    /// Whether the next token is this punctuation.
    pub fn at(&self, punct: &str) -> bool {
        matches!(self.token, Token::Punct(p) if p == punct)
    }

    /// Takes the punctuation if it is next.
    pub fn eat(&mut self, punct: &str) -> bool {
        let found = self.at(punct);
        if found {
            self.advance();
        }
        found
    }

    /// Takes the punctuation or fails.
    pub fn expect(&mut self, punct: &str) -> Result<(), ParseError> {
        if self.eat(punct) { Ok(()) } else { Err(self.unexpected(&format!("`{punct}`"))) }
    }

    /// Whether the next token is this word.
    pub fn at_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Ident(w) if w == word)
    }

    /// Takes the word if it is next.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.advance();
        }
        found
    }

    /// Takes the word or fails.
    pub fn expect_word(&mut self, word: &str) -> Result<(), ParseError> {
        if self.eat_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// Takes an identifier or fails; `what` names it in the error.
    pub fn ident(&mut self, what: &str) -> Result<&'a str, ParseError> {
        match self.token {
            Token::Ident(name) => {
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// Takes an integer with an optional minus sign or fails.
    pub fn integer(&mut self) -> Result<i64, ParseError> {
        let at = self.start;
        let negative = self.eat("-");
        let Token::Int(v) = self.token else {
            return Err(self.unexpected("an integer"));
        };
        let value = if negative { 0i64.checked_sub_unsigned(v) } else { i64::try_from(v).ok() };
        let value = value.ok_or_else(|| ParseError {
            line: at.line,
            column: at.column,
            message: "integer does not fit 64 bits".into(),
        })?;
        self.advance();
        Ok(value)
    }

    /// Takes a number (integer, float, `inf` or `nan`, with an optional minus sign) as a float or fails.
    pub fn number(&mut self) -> Result<f64, ParseError> {
        let negative = self.eat("-");
        let value = match self.token {
            Token::Int(v) => v as f64,
            Token::Float(v) => v,
            Token::Ident("inf") => f64::INFINITY,
            Token::Ident("nan") => f64::NAN,
            _ => return Err(self.unexpected("a number")),
        };
        self.advance();
        Ok(if negative { -value } else { value })
    }

    /// Takes a string or fails; `what` names it in the error.
    pub fn string(&mut self, what: &str) -> Result<String, ParseError> {
        match self.token {
            Token::Str(_) => match self.take() {
                Token::Str(s) => Ok(s),
                _ => Err(self.unexpected(what)),
            },
            _ => Err(self.unexpected(what)),
        }
    }

    /// Fails unless all is read.
    pub fn expect_end(&self) -> Result<(), ParseError> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected("the end of the text")) }
    }

    /// The error that the next token is not what was expected.
    pub fn unexpected(&self, expected: &str) -> ParseError {
        match &self.token {
            Token::Bad(why) => self.error(why.clone()),
            found => self.error(format!("found {found}, expected {expected}")),
        }
    }

    /// An error at the next token.
    pub fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError { line: self.start.line, column: self.start.column, message: message.into() }
    }

    /// Notes that a nested construct begins; fails when there are too many inside each other.
    pub fn enter(&mut self) -> Result<(), ParseError> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        Ok(())
    }

    /// Notes that a nested construct ends.
    pub fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn advance(&mut self) {
        self.previous_end = self.next.offset;
        self.skip_blank();
        self.start = self.next;
        self.token = self.scan();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.next.offset..]
    }

    /// Moves over the first `bytes` bytes of the rest.
    fn consume(&mut self, bytes: usize) -> &'a str {
        let taken = &self.rest()[..bytes];
        for c in taken.chars() {
            if c == '\n' {
                self.next.line += 1;
                self.next.column = 1;
            } else {
                self.next.column += 1;
            }
        }
        self.next.offset += bytes;
        taken
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            if blank > 0 {
                self.consume(blank);
            } else if rest.starts_with('#') {
                self.consume(rest.find('\n').unwrap_or(rest.len()));
            } else {
                return;
            }
        }
    }

    fn scan(&mut self) -> Token<'a> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Token::End;
        };
        if first == '$' {
            let length = ident_length(&rest[1..]);
            let taken = self.consume(1 + length);
            return if length == 0 {
                Token::Bad("found `$` without a name after it".into())
            } else {
                Token::Knob(&taken[1..])
            };
        }
        if first.is_ascii_digit() {
            return self.scan_number();
        }
        if first == '"' {
            return self.scan_string();
        }
        let length = ident_length(rest);
        if length > 0 {
            return Token::Ident(self.consume(length));
        }
        if let Some(p) = PUNCTUATION.iter().find(|p| rest.starts_with(**p)) {
            self.consume(p.len());
            return Token::Punct(p);
        }
        self.consume(first.len_utf8());
        Token::Bad(format!("found {first:?}, which starts no token"))
    }

    fn scan_number(&mut self) -> Token<'a> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut end = digits(0);
        let mut float = false;
        if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
            end += 1 + digits(end + 1);
            float = true;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if end + 1 + sign < bytes.len() && digits(end + 1 + sign) > 0 {
                end += 1 + sign + digits(end + 1 + sign);
                float = true;
            }
        }
        let tail = ident_length(&rest[end..]);
        let taken = self.consume(end + tail);
        if tail > 0 {
            return Token::Bad(format!("found `{taken}`, which is neither a number nor a name"));
        }
        if float {
            taken.parse().map_or_else(|_| Token::Bad(format!("`{taken}` is no number")), Token::Float)
        } else {
            taken
                .parse()
                .map_or_else(|_| Token::Bad(format!("integer `{taken}` does not fit 64 bits")), Token::Int)
        }
    }

    fn scan_string(&mut self) -> Token<'a> {
        let mut out = String::new();
        let mut escaped = false;
        let rest = self.rest();
        for (at, c) in rest.char_indices().skip(1) {
            if escaped {
                match c {
                    '"' | '\\' => out.push(c),
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    _ => {
                        self.consume(at + c.len_utf8());
                        return Token::Bad(format!("unknown escape `\\{c}` in a string"));
                    }
                }
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == '"' {
                self.consume(at + 1);
                return Token::Str(out);
            } else if c == '\n' {
                break;
            } else {
                out.push(c);
            }
        }
        self.consume(rest.find('\n').unwrap_or(rest.len()));
        Token::Bad("string is not closed on its line".into())
    }
}

/// The length of the identifier at the start of a text; a dot belongs to it only between its characters.
fn ident_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !bytes.first().is_some_and(|b| word(*b) && !b.is_ascii_digit()) {
        return 0;
    }
    let mut end = 1;
    while end < bytes.len() {
        if word(bytes[end]) {
            end += 1;
        } else if bytes[end] == b'.' && bytes.get(end + 1).is_some_and(|b| word(*b)) {
            end += 2;
        } else {
            break;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        while !lexer.at_end() {
            out.push(lexer.take());
        }
        out
    }

    #[test]
    fn dots_belong_to_names_only_between_characters() {
        let p = Token::Punct;
        assert_eq!(
            tokens("i.outer a..b 0..16"),
            [
                Token::Ident("i.outer"),
                Token::Ident("a"),
                p(".."),
                Token::Ident("b"),
                Token::Int(0),
                p(".."),
                Token::Int(16)
            ]
        );
    }

    #[test]
    fn longest_punctuation_wins_and_hash_comments() {
        let p = Token::Punct;
        assert_eq!(
            tokens("a//$b->c # not //\n<= <"),
            [Token::Ident("a"), p("//"), Token::Knob("b"), p("->"), Token::Ident("c"), p("<="), p("<")]
        );
    }

    #[test]
    fn numbers_and_strings() {
        assert_eq!(
            tokens(r#"1e-5 0.5 2E3 7 "a\"b\n""#),
            [
                Token::Float(1e-5),
                Token::Float(0.5),
                Token::Float(2e3),
                Token::Int(7),
                Token::Str("a\"b\n".into())
            ]
        );
        assert_eq!(Lexer::new("-9223372036854775808").integer(), Ok(i64::MIN));
        assert!(Lexer::new("9223372036854775808").integer().is_err());
        assert_eq!(Lexer::new("-inf").number(), Ok(f64::NEG_INFINITY));
    }

    #[test]
    fn positions_count_lines_and_characters() {
        let mut lexer = Lexer::new("\"é\" b\n  c");
        lexer.take();
        assert_eq!(lexer.position(), Position { offset: 5, line: 1, column: 5 });
        lexer.take();
        assert_eq!(lexer.position(), Position { offset: 9, line: 2, column: 3 });
        assert_eq!(lexer.unexpected("`(`").to_string(), "line 2, column 3: found `c`, expected `(`");
    }

    #[test]
    fn what_is_no_token_is_reported_where_it_stands() {
        for (text, column, part) in [
            ("a §", 3, "starts no token"),
            ("2x", 1, "neither"),
            ("\"ab", 1, "not closed"),
            ("$", 1, "without a name"),
        ] {
            let mut lexer = Lexer::new(text);
            while !matches!(lexer.peek(), Token::Bad(_) | Token::End) {
                lexer.take();
            }
            let error = lexer.unexpected("anything");
            assert_eq!(error.column, column, "{text}");
            assert!(error.message.contains(part), "{error}");
        }
    }
}
