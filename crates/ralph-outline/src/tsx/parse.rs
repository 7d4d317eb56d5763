//! Parses the text of a `.tsx` file into elements, safely for any input.
//!
//! The parser recurses, and its time is superlinear for some inputs. So size and nesting are bounded before parsing,
//! the parser runs on a thread whose stack is large enough for these bounds, and waiting for it has a timeout.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ExportDefaultDeclaration, Expression, JSXAttributeItem, JSXAttributeName, JSXAttributeValue,
    JSXElement, JSXElementName, JSXExpression, JSXMemberExpression, JSXMemberExpressionObject,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::Parser;
use oxc_span::{GetSpan, SourceType, Span};

/// The largest text that is parsed, and the maximum nesting of brackets and elements.
const LARGEST: usize = 128 << 10;
const DEEPEST: usize = 64;

/// Each byte of the largest text may cost one level of recursion, which takes less than 2 KiB.
const STACK: usize = 256 << 20;

const PATIENCE: Duration = Duration::from_secs(10);

/// An element, reduced to what the checks need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) props: Vec<Prop>,
    pub(crate) children: Vec<Element>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prop {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Its value, if that is a literal: a string, a number, `true`.
    pub(crate) value: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) line: usize,
    pub(crate) text: String,
    /// Byte offset in the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The line of the default export, and its elements.
    pub(crate) default_export: Option<(usize, Vec<Element>)>,
    /// The elements of the whole file, including those of the default export.
    pub(crate) elements: Vec<Element>,
    pub(crate) comments: Vec<Comment>,
    /// The modules it imports from.
    pub(crate) imports: Vec<String>,
}

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxProblem {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Parses a text, or returns all syntax errors.
pub(crate) fn parse(text: &str) -> Result<Parsed, Vec<SyntaxProblem>> {
    let lines = Lines::of(text);
    if let Some((at, message)) = unfit(text) {
        return Err(vec![SyntaxProblem { line: lines.line(at), message }]);
    }
    let failed = |message: &str| vec![SyntaxProblem { line: 1, message: message.to_owned() }];
    let (send, receive) = mpsc::channel();
    let owned = text.to_owned();
    let work = move || {
        // The receiver is gone after a timeout.
        let _ = send.send(parse_here(&owned, &lines));
    };
    let Ok(_) = thread::Builder::new().stack_size(STACK).spawn(work) else {
        return Err(failed("no thread to parse it on could be started"));
    };
    match receive.recv_timeout(PATIENCE) {
        Ok(parsed) => parsed,
        Err(RecvTimeoutError::Timeout) => Err(failed("it takes too long to parse: simplify it")),
        Err(RecvTimeoutError::Disconnected) => Err(failed("the parser gave up on it: simplify it")),
    }
}

/// Returns where and how a text exceeds the bounds for parsing.
fn unfit(text: &str) -> Option<(usize, String)> {
    if text.len() > LARGEST {
        let message = format!("it is larger than {} KiB", LARGEST >> 10);
        return Some((text.floor_char_boundary(LARGEST), message));
    }
    let mut depth = [0_usize; 2];
    for (at, byte) in text.bytes().enumerate() {
        let angle = usize::from(matches!(byte, b'<' | b'>'));
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth[angle] += 1,
            b')' | b']' | b'}' | b'>' => depth[angle] = depth[angle].saturating_sub(1),
            _ => {}
        }
        if depth[angle] > DEEPEST {
            let bracket = char::from(byte);
            return Some((at, format!("more than {DEEPEST} `{bracket}` are open at once")));
        }
    }
    None
}

fn parse_here(text: &str, lines: &Lines) -> Result<Parsed, Vec<SyntaxProblem>> {
    let allocator = Allocator::default();
    let found = Parser::new(&allocator, text, SourceType::tsx()).parse();
    let problems: Vec<SyntaxProblem> = found
        .errors
        .iter()
        .map(|error| {
            let label = error.labels.as_ref().and_then(|labels| labels.first());
            let line = label.map_or(1, |label| lines.line(label.offset()));
            SyntaxProblem { line, message: error.message.to_string() }
        })
        .collect();
    if !problems.is_empty() || found.panicked {
        let unknown = SyntaxProblem { line: 1, message: "it is not TSX".to_owned() };
        return Err(if problems.is_empty() { vec![unknown] } else { problems });
    }
    let mut collector =
        Collector { text, lines, parsed: Parsed::default(), open: Vec::new(), too_deep: None };
    collector.visit_program(&found.program);
    if let Some(line) = collector.too_deep {
        let message = format!("elements are nested more than {DEEPEST} deep");
        return Err(vec![SyntaxProblem { line, message }]);
    }
    let mut parsed = collector.parsed;
    parsed.comments = found
        .program
        .comments
        .iter()
        .map(|comment| {
            let span = comment.content_span();
            let (start, end) = (comment.span.start as usize, comment.span.end as usize);
            let text = text.get(span.start as usize..span.end as usize).unwrap_or("").to_owned();
            Comment { line: lines.line(start), text, start, end }
        })
        .collect();
    Ok(parsed)
}

/// The start offsets of lines.
#[derive(Clone)]
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Lines {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines { starts: after.map(|(at, _)| at + 1).collect() }
    }

    /// Returns the one-based line of a byte offset.
    fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at) + 1
    }
}

struct Collector<'t> {
    text: &'t str,
    lines: &'t Lines,
    parsed: Parsed,
    open: Vec<Element>,
    too_deep: Option<usize>,
}

impl Collector<'_> {
    fn line(&self, span: Span) -> usize {
        self.lines.line(span.start as usize)
    }

    fn prop(&self, item: &JSXAttributeItem<'_>) -> Option<Prop> {
        let JSXAttributeItem::Attribute(attribute) = item else { return None };
        let name = match &attribute.name {
            JSXAttributeName::Identifier(name) => name.name.to_string(),
            JSXAttributeName::NamespacedName(name) => {
                format!("{}:{}", name.namespace.name, name.name.name)
            }
        };
        let value = match &attribute.value {
            None => Some("true".to_owned()),
            Some(JSXAttributeValue::StringLiteral(text)) => Some(text.value.to_string()),
            Some(JSXAttributeValue::ExpressionContainer(inside)) => {
                self.literal(&inside.expression)
            }
            Some(_) => None,
        };
        Some(Prop { name, line: self.line(attribute.span), value })
    }

    fn literal(&self, expression: &JSXExpression<'_>) -> Option<String> {
        match expression {
            JSXExpression::StringLiteral(text) => Some(text.value.to_string()),
            JSXExpression::BooleanLiteral(flag) => Some(flag.value.to_string()),
            JSXExpression::NumericLiteral(_) => {
                let Span { start, end, .. } = expression.span();
                self.text.get(start as usize..end as usize).map(str::to_owned)
            }
            JSXExpression::TemplateLiteral(text) if text.expressions.is_empty() => {
                Some(text.quasis.iter().map(|part| part.value.raw.as_str()).collect())
            }
            _ => None,
        }
    }
}

impl<'a> Visit<'a> for Collector<'_> {
    fn visit_jsx_element(&mut self, element: &JSXElement<'a>) {
        let line = self.line(element.span);
        if self.open.len() >= DEEPEST {
            self.too_deep.get_or_insert(line);
            return;
        }
        let opening = &element.opening_element;
        let props = opening.attributes.iter().filter_map(|item| self.prop(item)).collect();
        let name = element_name(&opening.name);
        self.open.push(Element { name, line, props, children: Vec::new() });
        walk::walk_jsx_element(self, element);
        let Some(done) = self.open.pop() else { return };
        match self.open.last_mut() {
            Some(parent) => parent.children.push(done),
            None => self.parsed.elements.push(done),
        }
    }

    fn visit_export_default_declaration(&mut self, export: &ExportDefaultDeclaration<'a>) {
        let before = self.parsed.elements.len();
        walk::walk_export_default_declaration(self, export);
        let inside = self.parsed.elements[before..].to_vec();
        let is_elements = export.declaration.as_expression().is_some_and(is_jsx);
        let inside = if is_elements { inside } else { Vec::new() };
        self.parsed.default_export = Some((self.line(export.span), inside));
    }

    fn visit_import_declaration(&mut self, import: &oxc_ast::ast::ImportDeclaration<'a>) {
        self.parsed.imports.push(import.source.value.to_string());
    }
}

fn is_jsx(expression: &Expression<'_>) -> bool {
    matches!(
        expression.without_parentheses(),
        Expression::JSXElement(_) | Expression::JSXFragment(_)
    )
}

fn element_name(name: &JSXElementName<'_>) -> String {
    match name {
        JSXElementName::Identifier(name) => name.name.to_string(),
        JSXElementName::IdentifierReference(name) => name.name.to_string(),
        JSXElementName::NamespacedName(name) => {
            format!("{}:{}", name.namespace.name, name.name.name)
        }
        JSXElementName::MemberExpression(name) => member_name(name),
        JSXElementName::ThisExpression(_) => "this".to_owned(),
    }
}

fn member_name(member: &JSXMemberExpression<'_>) -> String {
    // `a.b.c` can be as long as the text: join from the end, without recursion.
    let mut parts = vec![member.property.name.to_string()];
    let mut object = &member.object;
    loop {
        match object {
            JSXMemberExpressionObject::IdentifierReference(name) => {
                parts.push(name.name.to_string());
                break;
            }
            JSXMemberExpressionObject::MemberExpression(member) => {
                parts.push(member.property.name.to_string());
                object = &member.object;
            }
            JSXMemberExpressionObject::ThisExpression(_) => {
                parts.push("this".to_owned());
                break;
            }
        }
    }
    parts.reverse();
    parts.join(".")
}

impl Element {
    /// Returns the value of a prop, if it is a literal.
    pub(crate) fn value(&self, prop: &str) -> Option<&str> {
        self.prop(prop)?.value.as_deref()
    }

    pub(crate) fn prop(&self, name: &str) -> Option<&Prop> {
        self.props.iter().find(|prop| prop.name == name)
    }

    /// Returns the element and all its descendants, in source order.
    pub(crate) fn all(&self) -> Vec<&Element> {
        let mut found = Vec::new();
        let mut open = vec![self];
        while let Some(element) = open.pop() {
            found.push(element);
            open.extend(element.children.iter().rev());
        }
        found
    }
}
