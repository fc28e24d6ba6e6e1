//! The recent notices, for clients that ask from time to time.

use std::collections::VecDeque;

use serde_json::{Value as Json, json};

/// The number of violations, and of other notices, that are kept.
const KEPT: usize = 256;

/// The last violations, each with its end, and the last other notices. Each has the number of its
/// last change, so that a reader can ask for the newer ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    number: u64,
    violations: VecDeque<Json>,
    notices: VecDeque<Json>,
}

impl Recent {
    /// Adds a notice in its JSON form.
    pub(crate) fn push(&mut self, mut notice: Json) {
        self.number += 1;
        let event = notice["event"].as_str().unwrap_or_default().to_owned();
        notice["number"] = json!(self.number);
        match event.as_str() {
            "fired" => {
                notice["resolved"] = Json::Null;
                keep(&mut self.violations, notice);
            }
            "resolved" => {
                let id = &notice["id"];
                if let Some(begun) = self.violations.iter_mut().rfind(|begun| begun["id"] == *id) {
                    begun["resolved"] = notice["at"].clone();
                    begun["number"] = json!(self.number);
                }
            }
            _ => keep(&mut self.notices, notice),
        }
    }

    /// The number of the last change; then violations and other notices that changed after
    /// `since`, each in the order in which they began.
    pub(crate) fn after(&self, since: u64) -> (u64, Vec<Json>, Vec<Json>) {
        let new = |notice: &&Json| notice["number"].as_u64().is_some_and(|number| number > since);
        let pick = |kept: &VecDeque<Json>| kept.iter().filter(new).cloned().collect();
        (self.number, pick(&self.violations), pick(&self.notices))
    }
}

fn keep(kept: &mut VecDeque<Json>, notice: Json) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(notice);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_kept_with_its_end_and_shown_again_when_it_ends() {
        let mut recent = Recent::default();
        recent.push(json!({ "event": "up", "node": 1 }));
        recent.push(json!({ "event": "fired", "id": "a", "at": 5 }));
        let (number, violations, notices) = recent.after(0);
        assert_eq!((number, violations.len(), notices.len()), (2, 1, 1));
        assert_eq!(violations[0]["resolved"], Json::Null);
        recent.push(json!({ "event": "resolved", "id": "a", "at": 9 }));
        let (number, violations, notices) = recent.after(number);
        assert_eq!((number, violations.len(), notices.len()), (3, 1, 0));
        assert_eq!(violations[0]["resolved"], 9);
        (0..2_000).for_each(|id| recent.push(json!({ "event": "fired", "id": id })));
        assert_eq!(recent.after(0).1.len(), KEPT);
    }
}
