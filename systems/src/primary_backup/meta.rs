//! The metadata server, which keeps the present group.

use everhold::prelude::*;

use super::{Bug, FLUSH, Group, Msg};

/// Accepts one change of a group at a time.
#[derive(Clone, Debug, Serialize)]
pub struct Meta {
    bug: Bug,
    group: Group,
}

impl Meta {
    /// A server with the initial group.
    #[must_use]
    pub fn new(bug: Bug) -> Meta {
        Meta { bug, group: Group::first() }
    }

    /// Accepts a change that directly follows the present group and comes from one of its members;
    /// answers with the present group.
    fn change(&mut self, cx: &mut Cx<Msg>, from: NodeId, asked: Group) {
        if asked.version == self.group.version + 1 && self.group.members.contains(&from) {
            self.group = asked;
            cx.disk().save("group", &self.group);
            match self.bug {
                Bug::None => cx.disk().sync(),
                Bug::AnswersBeforeFlush => cx.set_timer("flush", FLUSH),
            }
        }
        cx.send(from, Msg::Changed(self.group.clone()));
    }
}

impl Node for Meta {
    type Msg = Msg;

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        let kept = cx.disk().load("group").expect("it was saved whole");
        self.group = kept.unwrap_or_else(Group::first);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Change(asked) => self.change(cx, from, asked),
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        cx.disk().sync();
    }
}
