//! Tools that call other tools (S3 step 2): which call is judged in place of a wrapper's.
//!
//! Pure. What a wrapper call runs must be known for sure, or it is unresolved: then nothing that a caller says makes
//! it milder. Classes and selectors are not found here, only the call that they are asked about.

use std::borrow::Cow;
use std::collections::HashMap;

use super::document::{Text, WrapperDocument};
use super::error::{Place, PolicyError, quoted};
use super::pointer::Pointer;
use crate::arguments::{Arguments, Object, Value};
use crate::domain::{AskedCall, Id, ToolCall, Wrapped, WrapperTarget};

/// What stands between a server's name and its tool's in a tool id.
const SEPARATOR: &str = "__";

/// The call that is judged.
#[derive(Clone, Debug)]
pub struct Resolved<'c> {
    /// It: what was asked about, or the call in whose place a wrapper stands.
    pub call: Cow<'c, ToolCall>,
    /// Why it is not known for sure what the wrapper would run; none where it is.
    pub doubt: Option<Unresolved>,
}

/// Why it is not known for sure which call a wrapper call makes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "what `{wrapper}` would run is not known for sure, so it is destructive and needs review: {doubt}"
)]
pub struct Unresolved {
    /// The tool that was asked about.
    pub wrapper: Id,
    /// What is doubtful.
    pub doubt: Doubt,
}

/// What is doubtful about the target of a wrapper call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// No tool, or something other than a text.
    #[error("its arguments name no tool")]
    NamesNoTool,
    /// No server where the wrapper has servers, or something other than a text.
    #[error("its arguments name no server")]
    NamesNoServer,
    /// A name with characters that no id has, or a name that is too long.
    #[error("what its arguments name is no tool id")]
    NotAnId,
    /// A server of which another one's tool could have the same id.
    #[error(
        "the name of server `{0}` holds `__` or ends with `_`, so that a tool of another server could have the same id"
    )]
    AmbiguousServer(Id),
    /// Arguments that no tool takes.
    #[error("the arguments that it passes on are no object")]
    ArgumentsNoObject,
    /// Arguments that are past the limit in their one spelling (`1e20` has 21 digits).
    #[error(
        "the arguments that it passes on have {0} bytes when they are spelled out, at most {1} are allowed"
    )]
    ArgumentsTooLarge(usize, usize),
    /// A wrapper that calls a wrapper.
    #[error("`{0}`, which it names, is a wrapper itself")]
    NamesAWrapper(Id),
    /// The client resolved something else.
    #[error("`target` names other {0} than its arguments do")]
    Disagrees(&'static str),
    /// A target for a call that makes no other.
    #[error("`target` is set, and it is no wrapper")]
    NoWrapper,
}

/// The wrappers of a document, by tool id.
#[derive(Debug, Default)]
pub(super) struct Wrappers(HashMap<Id, Wrapper>);

/// Where in its arguments a wrapper says what it calls.
#[derive(Debug)]
struct Wrapper {
    name: Pointer,
    server: Option<Pointer>,
    /// Without it the wrapper passes all its arguments on, its own ones too.
    arguments: Option<Pointer>,
}

/// What the arguments of one wrapper call name.
struct Named<'a> {
    /// The tool's id and the server, as far as they are said.
    tool: Option<Id>,
    server: Option<Id>,
    /// The arguments that are passed on.
    passed: Passed<'a>,
    /// The first doubt.
    doubt: Option<Doubt>,
}

/// The arguments that a wrapper passes on.
enum Passed<'a> {
    Whole(&'a Arguments),
    Nothing,
    Value(&'a Value),
}

impl Wrappers {
    /// Compiles what a document lists.
    pub(super) fn compile(documents: Vec<WrapperDocument<'_>>) -> Result<Self, PolicyError> {
        let mut wrappers = HashMap::new();
        let mut places: HashMap<Id, Place<'_>> = HashMap::new();
        for document in documents {
            let WrapperDocument {
                place,
                tool,
                name,
                server,
                arguments,
            } = document;
            if let Some(first) = places.insert(tool.clone(), place) {
                return Err(place.error(format!(
                    "`wrappers`: `{tool}` is a wrapper already, at {}: keep one of the two",
                    first.describe()
                )));
            }
            let optional =
                |key, text: Option<Text<'_>>| text.map(|text| pointer(key, &text)).transpose();
            let wrapper = Wrapper {
                name: pointer("name", &name)?,
                server: optional("server", server)?,
                // The empty pointer is the whole, as RFC 6901 has it.
                arguments: optional("arguments", arguments.filter(|text| !text.value.is_empty()))?,
            };
            wrappers.insert(tool, wrapper);
        }
        Ok(Self(wrappers))
    }

    /// The call that is judged when `asked` is asked about.
    pub(super) fn resolve<'c>(&self, asked: &'c AskedCall, max_bytes: usize) -> Resolved<'c> {
        let AskedCall { call, target } = asked;
        match (self.0.get(&call.tool), target) {
            (None, None) => Resolved {
                call: Cow::Borrowed(call),
                doubt: None,
            },
            (None, Some(_)) => unresolved(call, None, None, Doubt::NoWrapper),
            (Some(wrapper), target) => {
                let named = wrapper.read(&call.arguments);
                self.target(call, named, target.as_deref(), max_bytes)
            }
        }
    }

    /// The call that is judged when the call of a suspension is, which was judged when it was opened. A document that
    /// has changed since may have made a wrapper of its tool.
    pub(super) fn resolve_again<'c>(&self, call: &'c ToolCall, max_bytes: usize) -> Resolved<'c> {
        match (&call.wrapped, self.0.get(&call.tool)) {
            (None, Some(wrapper)) => {
                let named = wrapper.read(&call.arguments);
                self.target(call, named, None, max_bytes)
            }
            (Some(wrapped), Some(_)) if wrapped.resolved => {
                let mut call = call.clone();
                let doubt = Unresolved {
                    wrapper: wrapped.tool.clone(),
                    doubt: Doubt::NamesAWrapper(call.tool.clone()),
                };
                call.annotations = None;
                call.wrapped = Some(Box::new(Wrapped {
                    resolved: false,
                    ..Wrapped::clone(wrapped)
                }));
                Resolved {
                    call: Cow::Owned(call),
                    doubt: Some(doubt),
                }
            }
            (None, None) | (Some(_), _) => Resolved {
                call: Cow::Borrowed(call),
                doubt: None,
            },
        }
    }

    /// The call that a wrapper call makes, if nothing about it is doubtful.
    fn target<'c>(
        &self,
        call: &'c ToolCall,
        named: Named<'c>,
        target: Option<&WrapperTarget>,
        max_bytes: usize,
    ) -> Resolved<'c> {
        let Named {
            tool,
            server,
            passed,
            doubt,
        } = named;
        let doubt = doubt.or_else(|| self.nested(tool.as_ref(), target));
        let (Some(id), None) = (&tool, &doubt) else {
            let doubt = doubt.unwrap_or(Doubt::NamesNoTool);
            return unresolved(call, tool, server, doubt);
        };
        let arguments = match passed.arguments(target, max_bytes) {
            Ok(arguments) => arguments,
            Err(doubt) => return unresolved(call, tool, server, doubt),
        };
        if let Some(target) = target {
            let differs = if target.tool != *id {
                Some("tools")
            } else if server
                .as_ref()
                .is_some_and(|server| target.server != *server)
            {
                Some("servers")
            } else if target.arguments != arguments {
                Some("arguments")
            } else {
                None
            };
            if let Some(what) = differs {
                return unresolved(call, tool, server, Doubt::Disagrees(what));
            }
        }
        let server = server.or_else(|| target.map(|target| target.server.clone()));
        if let Some(doubt) = server.as_ref().and_then(ambiguous) {
            return unresolved(call, tool, server, doubt);
        }
        Resolved {
            call: Cow::Owned(ToolCall {
                tool: id.clone(),
                server: server.unwrap_or_default(),
                annotations: target.and_then(|target| target.annotations.clone()),
                arguments,
                ..in_place_of(call, true)
            }),
            doubt: None,
        }
    }

    fn nested(&self, tool: Option<&Id>, target: Option<&WrapperTarget>) -> Option<Doubt> {
        let wraps = target
            .filter(|target| target.wraps)
            .map(|target| &target.tool);
        let named = tool.filter(|tool| self.0.contains_key(*tool));
        named.or(wraps).cloned().map(Doubt::NamesAWrapper)
    }
}

impl Passed<'_> {
    fn arguments(
        self,
        target: Option<&WrapperTarget>,
        max_bytes: usize,
    ) -> Result<Arguments, Doubt> {
        let nothing = Object::default();
        let object = match self {
            Self::Whole(arguments) => return Ok(arguments.clone()),
            Self::Nothing => &nothing,
            Self::Value(Value::Object(object)) => object,
            Self::Value(
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_),
            ) => return Err(Doubt::ArgumentsNoObject),
        };
        // The client's own text is kept where it says the same.
        if let Some(target) = target.filter(|target| target.arguments.object() == object) {
            return Ok(target.arguments.clone());
        }
        let arguments = Arguments::nested(object);
        match arguments.text().len() {
            bytes if bytes > max_bytes => Err(Doubt::ArgumentsTooLarge(bytes, max_bytes)),
            _ => Ok(arguments),
        }
    }
}

impl Wrapper {
    fn read<'a>(&self, arguments: &'a Arguments) -> Named<'a> {
        let root = arguments.object();
        let mut doubt = None;
        let mut text = |pointer: &Pointer, missing| match pointer.find(root) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.as_str()),
            Some(_) | None => {
                doubt = doubt.take().or(Some(missing));
                None
            }
        };
        let name = text(&self.name, Doubt::NamesNoTool);
        let server_name = self
            .server
            .as_ref()
            .and_then(|pointer| text(pointer, Doubt::NamesNoServer));
        let id = match (name, server_name) {
            (Some(name), Some(server)) => Some(Cow::Owned(format!("{server}{SEPARATOR}{name}"))),
            (Some(name), None) => Some(Cow::Borrowed(name)),
            (None, _) => None,
        };
        let mut parse = |text: &str| match Id::parse(text) {
            Ok(id) => Some(id),
            Err(_) => {
                doubt = doubt.take().or(Some(Doubt::NotAnId));
                None
            }
        };
        let tool = id.and_then(|id| parse(&id));
        let server = server_name.and_then(&mut parse);
        let doubt = doubt.or_else(|| server.as_ref().and_then(ambiguous));
        let passed = match &self.arguments {
            None => Passed::Whole(arguments),
            Some(pointer) => pointer.find(root).map_or(Passed::Nothing, Passed::Value),
        };
        Named {
            tool,
            server,
            passed,
            doubt,
        }
    }
}

/// What is doubtful about a server of such a name.
fn ambiguous(server: &Id) -> Option<Doubt> {
    let name = server.as_str();
    let ambiguous = name.contains(SEPARATOR) || name.ends_with('_');
    ambiguous.then(|| Doubt::AmbiguousServer(server.clone()))
}

/// A wrapper call that nobody can see through: judged under the id that its arguments name, else under its own, on all
/// its arguments. What anybody says of the tool counts for nothing.
fn unresolved<'c>(
    call: &ToolCall,
    tool: Option<Id>,
    server: Option<Id>,
    doubt: Doubt,
) -> Resolved<'c> {
    let (tool, server) = match tool {
        Some(tool) => (tool, server.unwrap_or_default()),
        None => (call.tool.clone(), call.server.clone()),
    };
    Resolved {
        call: Cow::Owned(ToolCall {
            tool,
            server,
            annotations: None,
            ..in_place_of(call, false)
        }),
        doubt: Some(Unresolved {
            wrapper: call.tool.clone(),
            doubt,
        }),
    }
}

/// The call with the place it is made from and the wrapper it is made by, which both keep.
fn in_place_of(call: &ToolCall, resolved: bool) -> ToolCall {
    ToolCall {
        wrapped: Some(Box::new(Wrapped {
            tool: call.tool.clone(),
            server: call.server.clone(),
            resolved,
        })),
        ..call.clone()
    }
}

fn pointer(key: &str, text: &Text<'_>) -> Result<Pointer, PolicyError> {
    Pointer::parse(&text.value).map_err(|error| {
        text.place_of_char(error.offset)
            .error(format!("`{key}`: {} {error}", quoted(&text.value)))
    })
}

#[cfg(test)]
mod tests;
