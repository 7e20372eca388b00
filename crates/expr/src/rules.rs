//! The rules of [`crate::rewrite`], as a table: name, from, to, and the conditions under which both are equal.
//!
//! Truth values are the numbers 0 and 1. Every rule holds for all real values of its variables that satisfy its
//! conditions and for which the left side is defined; `tests/rewrite.rs` tries each on random points.

use crate::bounds::Interval;

/// What must be known of a variable for a rule to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Above 0.
    Positive(&'static str),
    /// 0 or above.
    NonNegative(&'static str),
    /// 1 or above.
    AtLeastOne(&'static str),
    /// Not 0.
    NonZero(&'static str),
    /// A whole number.
    Whole(&'static str),
    /// 0 or 1.
    Truth(&'static str),
    /// The first is at most the second.
    AtMost(&'static str, &'static str),
    /// The first is below the second.
    Below(&'static str, &'static str),
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fact {
    /// Where it lies.
    pub interval: Interval,
    /// Whether it is a whole number.
    pub whole: bool,
}

impl Condition {
    /// Whether what is known of the variables proves the condition.
    pub fn holds(self, of: &dyn Fn(&str) -> Fact) -> bool {
        let interval = |v: &str| of(v).interval;
        match self {
            Condition::Positive(v) => interval(v).lo > 0.0,
            Condition::NonNegative(v) => interval(v).lo >= 0.0,
            Condition::AtLeastOne(v) => interval(v).lo >= 1.0,
            Condition::NonZero(v) => interval(v).lo > 0.0 || interval(v).hi < 0.0,
            Condition::Whole(v) => of(v).whole,
            Condition::Truth(v) => of(v).whole && interval(v).lo >= 0.0 && interval(v).hi <= 1.0,
            Condition::AtMost(a, b) => interval(a).hi <= interval(b).lo,
            Condition::Below(a, b) => interval(a).hi < interval(b).lo,
        }
    }
}

/// `from` becomes `to` when all conditions hold.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// For reports and tests.
    pub name: &'static str,
    /// What is found.
    pub from: &'static str,
    /// What it is equal to.
    pub to: &'static str,
    /// When.
    pub when: &'static [Condition],
}

const fn rule(name: &'static str, from: &'static str, to: &'static str, when: &'static [Condition]) -> Rule {
    Rule { name, from, to, when }
}

use Condition::{AtLeastOne, AtMost, Below, NonNegative, NonZero, Positive, Truth, Whole};

/// All rules.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    // Sums and products.
    rule("add-commutes",         "(+ ?a ?b)",                       "(+ ?b ?a)",                 &[]),
    rule("mul-commutes",         "(* ?a ?b)",                       "(* ?b ?a)",                 &[]),
    rule("add-associates",       "(+ (+ ?a ?b) ?c)",                "(+ ?a (+ ?b ?c))",          &[]),
    rule("mul-associates",       "(* (* ?a ?b) ?c)",                "(* ?a (* ?b ?c))",          &[]),
    rule("add-zero",             "(+ ?a 0)",                        "?a",                        &[]),
    rule("mul-one",              "(* ?a 1)",                        "?a",                        &[]),
    rule("mul-zero",             "(* ?a 0)",                        "0",                         &[]),
    rule("add-same",             "(+ ?a ?a)",                       "(* 2 ?a)",                  &[]),
    rule("add-negative",         "(+ ?a (* -1 ?a))",                "0",                         &[]),
    rule("factor",               "(+ (* ?a ?b) (* ?a ?c))",         "(* ?a (+ ?b ?c))",          &[]),
    rule("factor-one",           "(+ ?a (* ?a ?b))",                "(* ?a (+ 1 ?b))",           &[]),
    // Quotients.
    rule("div-one",              "(/ ?a 1)",                        "?a",                        &[]),
    rule("div-zero",             "(/ 0 ?a)",                        "0",                         &[NonZero("?a")]),
    rule("div-same",             "(/ ?a ?a)",                       "1",                         &[NonZero("?a")]),
    rule("div-cancel",           "(/ (* ?a ?b) ?a)",                "?b",                        &[NonZero("?a")]),
    rule("div-both",             "(/ (* ?a ?b) (* ?a ?c))",         "(/ ?b ?c)",                 &[NonZero("?a"), NonZero("?c")]),
    rule("div-div",              "(/ (/ ?a ?b) ?c)",                "(/ ?a (* ?b ?c))",          &[NonZero("?b"), NonZero("?c")]),
    rule("mul-div",              "(* ?a (/ ?b ?c))",                "(/ (* ?a ?b) ?c)",          &[NonZero("?c")]),
    rule("add-div",              "(+ (/ ?a ?c) (/ ?b ?c))",         "(/ (+ ?a ?b) ?c)",          &[NonZero("?c")]),
    // Logarithms, exponentials, roots.
    rule("log-exp",              "(log (exp ?a))",                  "?a",                        &[]),
    rule("exp-log",              "(exp (log ?a))",                  "?a",                        &[Positive("?a")]),
    rule("log-sum",              "(+ (log ?a) (log ?b))",           "(log (* ?a ?b))",           &[Positive("?a"), Positive("?b")]),
    rule("log-difference",       "(+ (log ?a) (* -1 (log ?b)))",    "(log (/ ?a ?b))",           &[Positive("?a"), Positive("?b")]),
    rule("exp-product",          "(* (exp ?a) (exp ?b))",           "(exp (+ ?a ?b))",           &[]),
    rule("sqrt-product",         "(* (sqrt ?a) (sqrt ?b))",         "(sqrt (* ?a ?b))",          &[NonNegative("?a"), NonNegative("?b")]),
    rule("sqrt-same",            "(* (sqrt ?a) (sqrt ?a))",         "?a",                        &[NonNegative("?a")]),
    rule("abs-positive",         "(abs ?a)",                        "?a",                        &[NonNegative("?a")]),
    // Minima and maxima.
    rule("min-commutes",         "(min ?a ?b)",                     "(min ?b ?a)",               &[]),
    rule("max-commutes",         "(max ?a ?b)",                     "(max ?b ?a)",               &[]),
    rule("min-associates",       "(min (min ?a ?b) ?c)",            "(min ?a (min ?b ?c))",      &[]),
    rule("max-associates",       "(max (max ?a ?b) ?c)",            "(max ?a (max ?b ?c))",      &[]),
    rule("min-same",             "(min ?a ?a)",                     "?a",                        &[]),
    rule("max-same",             "(max ?a ?a)",                     "?a",                        &[]),
    rule("min-ordered",          "(min ?a ?b)",                     "?a",                        &[AtMost("?a", "?b")]),
    rule("max-ordered",          "(max ?a ?b)",                     "?b",                        &[AtMost("?a", "?b")]),
    rule("min-of-max",           "(min ?a (max ?a ?b))",            "?a",                        &[]),
    rule("max-of-min",           "(max ?a (min ?a ?b))",            "?a",                        &[]),
    rule("min-common-summand",   "(min (+ ?a ?c) (+ ?b ?c))",       "(+ (min ?a ?b) ?c)",        &[]),
    rule("max-common-summand",   "(max (+ ?a ?c) (+ ?b ?c))",       "(+ (max ?a ?b) ?c)",        &[]),
    rule("min-common-factor",    "(min (* ?a ?c) (* ?b ?c))",       "(* (min ?a ?b) ?c)",        &[NonNegative("?c")]),
    rule("max-common-factor",    "(max (* ?a ?c) (* ?b ?c))",       "(* (max ?a ?b) ?c)",        &[NonNegative("?c")]),
    // Rounded quotients and remainders.
    rule("ceildiv-one",          "(ceildiv ?a 1)",                  "?a",                        &[Whole("?a")]),
    rule("floordiv-one",         "(floordiv ?a 1)",                 "?a",                        &[Whole("?a")]),
    rule("ceildiv-multiple",     "(ceildiv (* ?a ?b) ?b)",          "?a",                        &[Whole("?a"), Positive("?b"), Whole("?b")]),
    rule("floordiv-multiple",    "(floordiv (* ?a ?b) ?b)",         "?a",                        &[Whole("?a"), Positive("?b"), Whole("?b")]),
    rule("ceildiv-nested",       "(ceildiv (ceildiv ?a ?b) ?c)",    "(ceildiv ?a (* ?b ?c))",    &[Positive("?b"), Positive("?c"), Whole("?a"), Whole("?b"), Whole("?c")]),
    rule("floordiv-nested",      "(floordiv (floordiv ?a ?b) ?c)",  "(floordiv ?a (* ?b ?c))",   &[Positive("?b"), Positive("?c"), Whole("?a"), Whole("?b"), Whole("?c")]),
    rule("mod-one",              "(mod ?a 1)",                      "0",                         &[Whole("?a")]),
    rule("mod-multiple",         "(mod (* ?a ?b) ?b)",              "0",                         &[Whole("?a"), Positive("?b"), Whole("?b")]),
    rule("mod-small",            "(mod ?a ?b)",                     "?a",                        &[NonNegative("?a"), Below("?a", "?b")]),
    rule("mod-mod",              "(mod (mod ?a ?b) ?b)",            "(mod ?a ?b)",               &[Positive("?b"), Whole("?a"), Whole("?b")]),
    // Selections.
    rule("select-same",          "(select ?c ?a ?a)",               "?a",                        &[]),
    rule("select-true",          "(select 1 ?a ?b)",                "?a",                        &[]),
    rule("select-false",         "(select 0 ?a ?b)",                "?b",                        &[]),
    rule("select-not",           "(select (not ?c) ?a ?b)",         "(select ?c ?b ?a)",         &[]),
    rule("select-truth",         "(select ?c 1 0)",                 "?c",                        &[Truth("?c")]),
    rule("select-then-again",    "(select ?c (select ?c ?a ?b) ?d)", "(select ?c ?a ?d)",        &[]),
    rule("select-else-again",    "(select ?c ?a (select ?c ?b ?d))", "(select ?c ?a ?d)",        &[]),
    rule("select-sum",           "(+ (select ?c ?a ?b) (select ?c ?d ?e))", "(select ?c (+ ?a ?d) (+ ?b ?e))", &[]),
    rule("select-product",       "(* (select ?c ?a ?b) (select ?c ?d ?e))", "(select ?c (* ?a ?d) (* ?b ?e))", &[]),
    // Truth values.
    rule("and-commutes",         "(and ?a ?b)",                     "(and ?b ?a)",               &[]),
    rule("or-commutes",          "(or ?a ?b)",                      "(or ?b ?a)",                &[]),
    rule("and-same",             "(and ?a ?a)",                     "?a",                        &[Truth("?a")]),
    rule("or-same",              "(or ?a ?a)",                      "?a",                        &[Truth("?a")]),
    rule("and-true",             "(and ?a 1)",                      "?a",                        &[Truth("?a")]),
    rule("or-false",             "(or ?a 0)",                       "?a",                        &[Truth("?a")]),
    rule("and-absorbs",          "(and ?a (or ?a ?b))",             "?a",                        &[Truth("?a")]),
    rule("or-absorbs",           "(or ?a (and ?a ?b))",             "?a",                        &[Truth("?a")]),
    rule("and-associates",       "(and (and ?a ?b) ?c)",            "(and ?a (and ?b ?c))",      &[]),
    rule("or-associates",        "(or (or ?a ?b) ?c)",              "(or ?a (or ?b ?c))",        &[]),
    rule("or-factor",            "(or (and ?a ?b) (and ?a ?c))",    "(and ?a (or ?b ?c))",       &[]),
    rule("not-not",              "(not (not ?a))",                  "?a",                        &[Truth("?a")]),
    rule("not-less",             "(not (lt ?a ?b))",                "(le ?b ?a)",                &[]),
    rule("not-at-most",          "(not (le ?a ?b))",                "(lt ?b ?a)",                &[]),
    rule("not-equal",            "(not (eq ?a ?b))",                "(ne ?a ?b)",                &[]),
    // Comparisons.
    rule("eq-same",              "(eq ?a ?a)",                      "1",                         &[]),
    rule("le-same",              "(le ?a ?a)",                      "1",                         &[]),
    rule("lt-same",              "(lt ?a ?a)",                      "0",                         &[]),
    rule("lt-common-factor",     "(lt (* ?a ?c) (* ?b ?c))",        "(lt ?a ?b)",                &[Positive("?c")]),
    rule("le-common-factor",     "(le (* ?a ?c) (* ?b ?c))",        "(le ?a ?b)",                &[Positive("?c")]),
    rule("lt-min",               "(lt ?a (min ?b ?c))",             "(lt ?a ?b)",                &[Below("?a", "?c")]),
    rule("le-min",               "(le ?a (min ?b ?c))",             "(le ?a ?b)",                &[AtMost("?a", "?c")]),
    rule("lt-product",           "(lt 1 (* ?a ?b))",                "(or (lt 1 ?a) (lt 1 ?b))",  &[AtLeastOne("?a"), AtLeastOne("?b")]),
    rule("le-min-whole",         "(le ?b (min ?a ?b))",             "(le ?b ?a)",                &[]),
];
