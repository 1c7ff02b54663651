//! Relations between arithmetic expressions.

use super::Parser;
use crate::ast::{Arithmetic, Expression, Operator, Primitive, Relation, Width};
use crate::error::FilterError;
use crate::lexer::{Kind, Symbol};
use crate::names;

/// How many arithmetic operators an expression may have.
const MAX_OPERATORS: usize = 256;

/// How tightly operators bind, from `|` to `*`.
fn binary(symbol: Symbol) -> Option<(Operator, u8)> {
    Some(match symbol {
        Symbol::Bar => (Operator::Or, 1),
        Symbol::Ampersand => (Operator::And, 2),
        Symbol::ShiftLeft => (Operator::ShiftLeft, 3),
        Symbol::ShiftRight => (Operator::ShiftRight, 3),
        Symbol::Plus => (Operator::Add, 4),
        Symbol::Minus => (Operator::Subtract, 4),
        Symbol::Star => (Operator::Multiply, 5),
        Symbol::Slash => (Operator::Divide, 5),
        Symbol::Percent => (Operator::Remainder, UNRANKED),
        Symbol::Caret => (Operator::Xor, UNRANKED),
        _ => return None,
    })
}

/// libpcap gives `%` and `^` no rank: whatever stands to their left, they take the operand next to them,
/// and everything to their right.
const UNRANKED: u8 = u8::MAX;

fn relation(symbol: Symbol) -> Option<Relation> {
    Some(match symbol {
        Symbol::Equal => Relation::Equal,
        Symbol::NotEqual => Relation::NotEqual,
        Symbol::Less => Relation::Less,
        Symbol::LessOrEqual => Relation::LessOrEqual,
        Symbol::Greater => Relation::Greater,
        Symbol::GreaterOrEqual => Relation::GreaterOrEqual,
        _ => return None,
    })
}

impl Parser {
    /// Whether a relation stands next, and not an address, a port or a parenthesised test.
    pub(super) fn starts_relation(&self) -> bool {
        match &self.peek().kind {
            Kind::Symbol(Symbol::Minus) => true,
            Kind::Symbol(Symbol::Open) => self.continues_at(self.behind_parenthesis()),
            Kind::Number(_) => self.continues_at(self.next + 1),
            Kind::Word => match self.peek().text.as_str() {
                "len" | "length" => true,
                word => {
                    let index = self.peek_at(self.next + 1).kind == Kind::Symbol(Symbol::OpenIndex);
                    index && names::protocol(word).is_some()
                }
            },
            _ => false,
        }
    }

    /// Whether the token at `index` is an operator or a relation.
    fn continues_at(&self, index: usize) -> bool {
        match self.peek_at(index).kind {
            Kind::Symbol(symbol) => binary(symbol).is_some() || relation(symbol).is_some(),
            _ => false,
        }
    }

    /// Where the token behind the parenthesis stands that opens here.
    fn behind_parenthesis(&self) -> usize {
        let mut open = 0_usize;
        for (index, token) in self.tokens.iter().enumerate().skip(self.next) {
            match token.kind {
                Kind::Symbol(Symbol::Open) => open += 1,
                Kind::Symbol(Symbol::Close) => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 {
                return index + 1;
            }
        }
        self.tokens.len()
    }

    pub(super) fn relation(&mut self) -> Result<Expression, FilterError> {
        let column = self.peek().column;
        let left = self.arithmetic(0)?;
        let Some(relation) = self.symbol().and_then(relation) else {
            return Err(self.error("a relation", "compare the number with another by =, !=, <, <=, > or >="));
        };
        self.advance();
        let right = self.arithmetic(0)?;
        Ok(Expression::Primitive { column, primitive: Primitive::Relation { left, relation, right } })
    }

    /// An arithmetic expression of operators that bind at least as tightly as `rank`.
    fn arithmetic(&mut self, rank: u8) -> Result<Arithmetic, FilterError> {
        let mut left = self.operand()?;
        while let Some((operator, tightness)) = self.symbol().and_then(binary) {
            if tightness < rank {
                break;
            }
            let column = self.peek().column;
            self.count_operator()?;
            self.advance();
            let right_rank = if tightness == UNRANKED { 0 } else { tightness + 1 };
            let right = self.nested(|parser| parser.arithmetic(right_rank))?;
            left = Arithmetic::Binary { column, operator, left: Box::new(left), right: Box::new(right) };
        }
        Ok(left)
    }

    fn count_operator(&mut self) -> Result<(), FilterError> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            return Err(self.error(
                format!("at most {MAX_OPERATORS} arithmetic operators"),
                "compute what is constant beforehand",
            ));
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<Arithmetic, FilterError> {
        if let Kind::Number(number) = self.peek().kind {
            self.advance();
            return Ok(Arithmetic::Number(number));
        }
        if self.take(Symbol::Minus) {
            // Above every ranked operator, and below those without a rank.
            let inner = self.nested(|parser| parser.arithmetic(UNRANKED))?;
            return Ok(Arithmetic::Negate(Box::new(inner)));
        }
        if self.take(Symbol::Open) {
            let inner = self.nested(|parser| parser.arithmetic(0))?;
            self.close()?;
            return Ok(inner);
        }
        if self.take_word("len") || self.take_word("length") {
            return Ok(Arithmetic::Length);
        }
        self.accessor()
    }

    /// `protocol[index]` or `protocol[index:width]`.
    fn accessor(&mut self) -> Result<Arithmetic, FilterError> {
        let column = self.peek().column;
        let Some(protocol) = self.word().and_then(names::protocol) else {
            return Err(
                self.error("a number, `len` or an accessor", "write one like `len`, `ip[8]` or `tcp[tcpflags]`")
            );
        };
        self.advance();
        if !self.take(Symbol::OpenIndex) {
            return Err(self.error("`[`", "say which bytes of the header: `ip[8]`, `ip[2:2]`"));
        }
        let index = self.nested(|parser| parser.arithmetic(0))?;
        let width = self.width()?;
        if !self.take(Symbol::CloseIndex) {
            return Err(self.error("`]`", "close the accessor: `ip[8]`, `ip[2:2]`"));
        }
        Ok(Arithmetic::Load { column, protocol, index: Box::new(index), width })
    }

    fn width(&mut self) -> Result<Width, FilterError> {
        if !self.take(Symbol::Colon) {
            return Ok(Width::One);
        }
        let width = match self.peek().kind {
            Kind::Number(1) => Width::One,
            Kind::Number(2) => Width::Two,
            Kind::Number(4) => Width::Four,
            _ => {
                return Err(self.error("1, 2 or 4", "only one, two or four bytes can be read at once"));
            }
        };
        self.advance();
        Ok(width)
    }
}
