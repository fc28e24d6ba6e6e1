//! The shape of each line. The types of the crate never derive `Serialize`; what is stored is
//! fixed here, and a change here is a new version of the format.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

use crate::value::json::AsJson;
use crate::value::{Change, Step};
use crate::{NodeInfo, Value};

/// The version that this module writes.
pub(super) const VERSION: u64 = 1;

/// Any line, as read: `is` says which fields count. Fields that this version does not know are
/// ignored, so that a later one may add some.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Line {
    pub(super) everhold: Option<String>,
    pub(super) version: Option<u64>,
    pub(super) is: Option<String>,
    pub(super) name: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) notes: Option<BTreeMap<String, Json>>,
    pub(super) node: Option<NodeRef>,
    pub(super) from: Option<NodeRef>,
    pub(super) seq: Option<u64>,
    pub(super) also: Option<Vec<(NodeRef, u64)>>,
    pub(super) time: Option<u64>,
    pub(super) wall_ns: Option<i64>,
    pub(super) sends: Option<Vec<SendIn>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) state: Option<Json>,
    pub(super) changes: Option<Changes>,
    pub(super) text: Option<String>,
    pub(super) clock: Option<BTreeMap<String, u64>>,
    pub(super) message: Option<(NodeRef, u64)>,
    pub(super) groups: Option<Vec<Vec<NodeRef>>>,
    pub(super) events: Option<u64>,
}

/// A node by name, or by its place among the declared ones.
#[derive(Debug)]
pub(super) enum NodeRef {
    Name(String),
    Number(u64),
}

// By hand: an untagged enum buffers each name and gives poor messages.
impl<'de> Deserialize<'de> for NodeRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeRefVisitor)
    }
}

struct NodeRefVisitor;

impl Visitor<'_> for NodeRefVisitor {
    type Value = NodeRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node's name or number")
    }

    fn visit_str<E>(self, name: &str) -> Result<NodeRef, E> {
        Ok(NodeRef::Name(name.to_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<NodeRef, E> {
        Ok(NodeRef::Number(number))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct SendIn {
    pub(super) to: Option<NodeRef>,
    pub(super) seq: u64,
    #[serde(default)]
    pub(super) label: String,
    #[serde(default, deserialize_with = "present")]
    pub(super) payload: Option<Json>,
}

/// Changes in full, or the short form: fields of the state with their new values.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an array of changes, or an object of fields")]
pub(super) enum Changes {
    Full(Vec<ChangeIn>),
    Fields(BTreeMap<String, Json>),
}

#[derive(Debug, Deserialize)]
pub(super) struct ChangeIn {
    pub(super) at: Vec<Json>,
    #[serde(default, deserialize_with = "present")]
    pub(super) old: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    pub(super) new: Option<Json>,
}

/// Tells a field that is null from one that is absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

#[derive(Serialize)]
pub(super) struct Header {
    pub(super) everhold: &'static str,
    pub(super) version: u64,
}

#[derive(Serialize)]
pub(super) struct Run<'a> {
    pub(super) is: &'static str,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Notes::is_empty")]
    pub(super) notes: Notes<'a>,
}

#[derive(Serialize)]
pub(super) struct Node<'a> {
    is: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
}

impl<'a> From<&'a NodeInfo> for Node<'a> {
    fn from(info: &'a NodeInfo) -> Self {
        Node { is: "node", name: &info.name, kind: &info.kind }
    }
}

#[derive(Serialize)]
pub(super) struct End {
    pub(super) is: &'static str,
    pub(super) events: u64,
}

/// An event. The order of the fields is that in which people read them.
#[derive(Serialize)]
pub(super) struct Event<'a> {
    pub(super) is: &'static str,
    pub(super) node: &'a str,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seq: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) also: Vec<(&'a str, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wall_ns: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sends: Vec<Send<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<AsJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changes: Option<Vec<ChangeOut<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clock: Option<BTreeMap<&'a str, u64>>,
}

#[derive(Serialize)]
pub(super) struct Send<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<&'a str>,
    pub(super) seq: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<AsJson<'a>>,
}

#[derive(Serialize)]
pub(super) struct Mark<'a> {
    pub(super) is: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<(&'a str, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) groups: Option<Vec<Vec<&'a str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
}

pub(super) struct Notes<'a>(pub(super) &'a BTreeMap<String, Value>);

impl Notes<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Notes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, AsJson(value))))
    }
}

#[derive(Serialize)]
pub(super) struct ChangeOut<'a> {
    at: Vec<StepOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<AsJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<AsJson<'a>>,
}

impl<'a> From<&'a Change> for ChangeOut<'a> {
    fn from(change: &'a Change) -> Self {
        ChangeOut {
            at: change.path.0.iter().map(StepOut).collect(),
            old: change.old.as_ref().map(AsJson),
            new: change.new.as_ref().map(AsJson),
        }
    }
}

/// A field is text, a position a number, a key `{"key": ..}`, what a variant carries null.
struct StepOut<'a>(&'a Step);

impl Serialize for StepOut<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Step::Field(name) => to.serialize_str(name),
            Step::Index(index) => index.serialize(to),
            Step::Key(key) => to.collect_map([("key", AsJson(key))]),
            Step::Payload => to.serialize_unit(),
        }
    }
}
