//! Tokens in, a typed tree out. The grammar is libpcap's.

use crate::MAX_LENGTH;
use crate::ast::{Cast, Expression, Join, Primitive, Protocol};
use crate::error::FilterError;
use crate::lexer::{self, Kind, Symbol, Token};
use crate::names;

mod arithmetic;
mod qualified;

use qualified::Qualifiers;

/// How deep parentheses, `not` and accessors may nest.
const MAX_DEPTH: usize = 64;

/// Reads an expression; `None` for the empty one.
pub(crate) fn parse(text: &str) -> Result<Option<Expression>, FilterError> {
    if text.len() > MAX_LENGTH {
        return Err(FilterError::new(
            1,
            format!("{} bytes", text.len()),
            format!("at most {MAX_LENGTH} bytes"),
            "shorten the expression: write nets for lists of hosts",
        ));
    }
    let mut parser = Parser { tokens: lexer::tokens(text)?, next: 0, depth: 0, operators: 0 };
    if parser.peek().kind == Kind::End {
        return Ok(None);
    }
    let expression = parser.chain(&mut None, Parser::term)?;
    if parser.peek().kind != Kind::End {
        return Err(parser.error("`and`, `or` or the end", "join two tests by `and` or `or`"));
    }
    Ok(Some(expression))
}

/// The qualifiers of the last address or port, which a bare one after it inherits.
type Inherited = Option<Qualifiers>;

struct Parser {
    /// Never empty; the last one is `End`.
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    /// Arithmetic operators so far.
    operators: usize,
}

const END: &Token = &Token { kind: Kind::End, text: String::new(), column: 1 };

impl Parser {
    fn peek(&self) -> &Token {
        self.peek_at(self.next)
    }

    fn peek_at(&self, index: usize) -> &Token {
        self.tokens.get(index).or(self.tokens.last()).unwrap_or(END)
    }

    fn advance(&mut self) {
        self.next += 1;
    }

    fn symbol(&self) -> Option<Symbol> {
        match self.peek().kind {
            Kind::Symbol(symbol) => Some(symbol),
            _ => None,
        }
    }

    /// Takes `symbol` if it stands next.
    fn take(&mut self, symbol: Symbol) -> bool {
        let there = self.symbol() == Some(symbol);
        if there {
            self.advance();
        }
        there
    }

    /// The word of the language that stands next.
    fn word(&self) -> Option<&str> {
        let token = self.peek();
        (token.kind == Kind::Word).then_some(token.text.as_str())
    }

    fn take_word(&mut self, word: &str) -> bool {
        let there = self.word() == Some(word);
        if there {
            self.advance();
        }
        there
    }

    fn error(&self, expected: impl Into<String>, remedy: impl Into<String>) -> FilterError {
        let token = self.peek();
        let found = match token.kind {
            Kind::End => "the end".to_owned(),
            _ => format!("`{}`", token.text),
        };
        FilterError::new(token.column, found, expected, remedy)
    }

    /// Runs `inner` one level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, FilterError>) -> Result<T, FilterError> {
        if self.depth >= MAX_DEPTH {
            return Err(
                self.error(format!("at most {MAX_DEPTH} levels of nesting"), "remove parentheses that change nothing")
            );
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn close(&mut self) -> Result<(), FilterError> {
        if self.take(Symbol::Close) {
            return Ok(());
        }
        Err(self.error("`)`", "close the parenthesis, or join two tests by `and` or `or`"))
    }

    /// Items joined by `and` and `or`.
    fn chain<Q>(
        &mut self,
        context: &mut Q,
        item: impl Fn(&mut Self, &mut Q) -> Result<Expression, FilterError>,
    ) -> Result<Expression, FilterError> {
        let first = item(self, context)?;
        let mut rest = Vec::new();
        loop {
            let join = match self.symbol() {
                Some(Symbol::And) => Join::And,
                Some(Symbol::Or) => Join::Or,
                _ => break,
            };
            self.advance();
            rest.push((join, item(self, context)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expression::Chain { first: Box::new(first), rest })
    }

    fn term(&mut self, inherited: &mut Inherited) -> Result<Expression, FilterError> {
        if self.starts_relation() {
            *inherited = None;
            return self.relation();
        }
        if self.take(Symbol::Not) {
            let inner = self.nested(|parser| parser.term(inherited))?;
            return Ok(Expression::Not(Box::new(inner)));
        }
        if self.take(Symbol::Open) {
            return self.parenthesis(inherited);
        }
        match (&self.peek().kind, *inherited) {
            (Kind::Word, _) => self.keyword(inherited),
            (Kind::Symbol(_) | Kind::End, _) => {
                Err(self.error("a test", "write one like `host 10.0.0.1`, `tcp port 80` or `ip[8] < 5`"))
            }
            (_, Some(qualifiers)) => self.identifier(qualifiers),
            (_, None) => Err(self.error(
                "a word that says what is tested",
                format!("write `host {0}`, `net {0}` or `port {0}`", self.peek().text),
            )),
        }
    }

    /// A parenthesised expression. What follows it inherits what stood before it.
    fn parenthesis(&mut self, inherited: &mut Inherited) -> Result<Expression, FilterError> {
        let mut inner = *inherited;
        let expression = self.nested(|parser| parser.chain(&mut inner, Self::term))?;
        self.close()?;
        Ok(expression)
    }

    fn keyword(&mut self, inherited: &mut Inherited) -> Result<Expression, FilterError> {
        let column = self.peek().column;
        if let Some(primitive) = self.standalone()? {
            *inherited = None;
            return Ok(Expression::Primitive { column, primitive });
        }
        let word = self.word().unwrap_or_default().to_owned();
        let over = names::protocol(&word);
        if over.is_some() {
            self.advance();
        }
        if let Some(qualifiers) = self.qualifiers(over)? {
            *inherited = Some(qualifiers);
            return self.identifier(qualifiers);
        }
        let primitive = if self.take_word("broadcast") {
            Primitive::Broadcast(self.cast(over)?)
        } else if self.take_word("multicast") {
            Primitive::Multicast(self.cast(over)?)
        } else if let Some(protocol) = over {
            Primitive::Protocol(protocol)
        } else if names::is_unsupported(&word) {
            return Err(
                self.error("a test on Ethernet frames", "leave this word out: it belongs to other kinds of capture")
            );
        } else if let Some(qualifiers) = *inherited {
            return self.identifier(qualifiers);
        } else {
            return Err(self.error(
                "a word of the filter language",
                "see pcap-filter(7) for the words; names of hosts are not looked up",
            ));
        };
        *inherited = None;
        Ok(Expression::Primitive { column, primitive })
    }

    /// Whose address `broadcast` or `multicast` is about.
    fn cast(&self, over: Option<Protocol>) -> Result<Cast, FilterError> {
        match over {
            None | Some(Protocol::Link) => Ok(Cast::Link),
            Some(Protocol::Ip) => Ok(Cast::Ip),
            Some(Protocol::Ip6) => Ok(Cast::Ip6),
            Some(_) => Err(self
                .error("`ether`, `ip` or `ip6` before `broadcast` or `multicast`", "only these have such addresses")),
        }
    }

    /// The tests that have no qualifiers: `less`, `vlan` and the like.
    fn standalone(&mut self) -> Result<Option<Primitive>, FilterError> {
        let Some(word) = self.word() else {
            return Ok(None);
        };
        let primitive = match word {
            "less" => Primitive::AtMost(self.length_after()?),
            "greater" => Primitive::AtLeast(self.length_after()?),
            "vlan" => Primitive::Vlan(self.optional_number(0xfff, "a VLAN identifier")?),
            "mpls" => Primitive::Mpls(self.optional_number(0xf_ffff, "an MPLS label")?),
            "pppoed" => {
                self.advance();
                Primitive::PppoeDiscovery
            }
            "pppoes" => Primitive::PppoeSession(self.optional_number(0xffff, "a PPPoE session")?),
            _ => return Ok(None),
        };
        Ok(Some(primitive))
    }

    fn length_after(&mut self) -> Result<u32, FilterError> {
        self.advance();
        let Kind::Number(number) = self.peek().kind else {
            return Err(self.error("a length in bytes", "write a number like `less 128`"));
        };
        self.advance();
        Ok(number)
    }

    /// The number, perhaps in parentheses, after a word that can do without.
    fn optional_number(&mut self, max: u32, what: &str) -> Result<Option<u32>, FilterError> {
        self.advance();
        let mut open = 0;
        while self.peek_at(self.next + open).kind == Kind::Symbol(Symbol::Open) {
            open += 1;
        }
        let Kind::Number(number) = self.peek_at(self.next + open).kind else {
            return Ok(None);
        };
        self.next += open;
        if number > max {
            return Err(self.error(format!("{what} from 0 to {max}"), "write a smaller number, or none to match any"));
        }
        self.advance();
        for _ in 0..open {
            self.close()?;
        }
        Ok(Some(number))
    }
}
