//! The page of a folder: the last outcome of each test, and everything else that can be opened.

use std::fmt::Write as _;
use std::path::Path;

use crate::ci::escaped;
use crate::findings::{Finding, Outcome, ago};
use crate::words::{counted, number};

/// The style: it follows the colours of the browser, and becomes a list on narrow screens.
const STYLE: &str = "
:root{color-scheme:light dark;--line:#8884;--bad:#c02637;--good:#1a7f37}
body{font:15px/1.5 system-ui,sans-serif;margin:1.5em auto;max-width:1200px;padding:0 1em}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.45em .7em;
border-bottom:1px solid var(--line)}th{font-weight:600}td.n{text-align:right;font-variant-numeric:tabular-nums}
td.bad,td.good{white-space:nowrap}.bad{color:var(--bad);font-weight:600}.good{color:var(--good);font-weight:600}code{font-size:13px;overflow-wrap:anywhere}
details summary{cursor:pointer}ul{margin:.2em 0;padding-left:1.2em}.quiet{opacity:.7}
@media (prefers-color-scheme:dark){:root{--bad:#ff7b72;--good:#56d364}}
@media (max-width:700px){thead{display:none}tr{display:block;border:1px solid var(--line);border-radius:6px;
margin:0 0 .8em;padding:.3em}td{display:block;border:0;padding:.2em .5em}td.n{text-align:left}
td[data-label]::before{content:attr(data-label) \": \";opacity:.7}}";

/// A run that can be opened: its name, and its link.
pub(super) struct Run {
    pub(super) name: String,
    pub(super) link: String,
}

/// The page.
pub(super) fn page(folder: &Path, outcomes: &[Outcome], runs: &[Run]) -> String {
    let mut body = format!(
        "<h1>Everhold</h1><p class=\"quiet\">{}, newest first; this page follows the folder.</p>",
        escaped(&folder.display().to_string())
    );
    if !outcomes.is_empty() {
        let failed = outcomes.iter().filter(|outcome| outcome.fails).count();
        let _ = write!(
            body,
            "<h2>Tests</h2><p>{}, {} failed when it ran last.</p>",
            counted(outcomes.len(), "test"),
            number(failed as u64)
        );
        body.push_str(
            "<table><thead><tr><th>Verdict</th><th>Test</th><th>Finding</th><th>Size</th>\
            <th>Executions</th><th>Coverage</th><th>When</th></tr></thead><tbody>",
        );
        outcomes.iter().for_each(|outcome| row(outcome, runs, &mut body));
        body.push_str("</tbody></table>");
    }
    if !runs.is_empty() {
        body.push_str("<h2>Pages and traces</h2><ol>");
        for run in runs {
            let _ = writeln!(body, "<li><a href=\"{}\">{}</a></li>", run.link, escaped(&run.name));
        }
        body.push_str("</ol>");
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         script-src 'unsafe-inline'; style-src 'unsafe-inline'\">\
         <title>Everhold</title><style>{STYLE}</style><body>{body}</body></html>"
    )
}

fn row(outcome: &Outcome, runs: &[Run], out: &mut String) {
    let (class, sign) = if outcome.fails { ("bad", "✗") } else { ("good", "✓") };
    let coverage = &outcome.coverage;
    let pairs = coverage.pairs_seen + coverage.pairs_unseen;
    let _ = write!(
        out,
        "<tr><td class=\"{class}\">{sign} {}</td><td>{}{}</td><td>{}</td><td data-label=\"size\">{}</td>\
         <td class=\"n\" data-label=\"executions\">{}</td><td data-label=\"coverage\">{} orders, {} states{}</td>\
         <td class=\"quiet\">{}</td></tr>",
        escaped(&outcome.verdict),
        escaped(&outcome.name),
        subjects(outcome),
        outcome.finding.as_ref().map_or_else(String::new, |finding| link(finding, runs)),
        outcome.finding.as_ref().map_or_else(String::new, size),
        number(outcome.executions),
        number(coverage.orders),
        number(coverage.states),
        if pairs == 0 {
            String::new()
        } else {
            format!(", {} of {pairs} pairs", coverage.pairs_seen)
        },
        ago(outcome.written),
    );
}

fn size(finding: &Finding) -> String {
    format!("{}, {}", counted(finding.steps, "step"), counted(finding.faults, "fault"))
}

/// The cause of a finding, with a link to its page, and the command that replays it.
fn link(finding: &Finding, runs: &[Run]) -> String {
    let cause = escaped(&finding.cause);
    let run = runs.iter().find(|run| run.name == finding.id);
    let cause = match run {
        Some(run) => format!("<a href=\"{}\">{cause}</a>", run.link),
        None => cause,
    };
    format!("{cause}<br><code>everhold replay {}</code>", escaped(&finding.id))
}

/// The properties and goals of a test, and what was never tested, to be unfolded.
fn subjects(outcome: &Outcome) -> String {
    if outcome.properties.len() + outcome.goals.len() + outcome.untested.len() == 0 {
        return String::new();
    }
    let executions =
        counted(usize::try_from(outcome.executions).unwrap_or(usize::MAX), "execution");
    let violated = outcome.finding.as_ref().map(|finding| finding.cause.as_str());
    let properties = outcome.properties.iter().map(|name| {
        // A search that failed stopped there, so of the other properties it says little.
        match violated == Some(name.as_str()) {
            true => format!("✗ {name}"),
            false if outcome.fails => format!("· {name}: not violated in {executions}"),
            false => format!("✓ {name}"),
        }
    });
    let goals = outcome.goals.iter().map(|goal| match goal.reached {
        0 => format!("! sometimes \"{}\": never reached", goal.name),
        reached => format!("✓ sometimes \"{}\": reached {} times", goal.name, number(reached)),
    });
    let untested = outcome.untested.iter().map(|text| format!("! {text}"));
    let lines = properties.chain(goals).chain(untested);
    let list: String = lines.map(|line| format!("<li>{}</li>", escaped(&line))).collect();
    let open = if outcome.untested.is_empty() { "" } else { " open" };
    format!(
        "<details{open}><summary class=\"quiet\">properties and goals</summary><ul>{list}</ul></details>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = r#"{"v":1,"name":"a<b","test":"a","package":"p","manifest":"/x","verdict":"violated","fails":true,
        "summary":"s","executions":1234,"seconds":0.5,"properties":["always \"one\"","always \"two\""],
        "goals":[{"name":"g","reached":0}],"untested":[],
        "coverage":{"orders":5,"states":6,"pairs_seen":2,"pairs_unseen":1},
        "finding":{"id":"a-12345678","cause":"always \"two\"","message":"m","steps":7,"faults":1,"replay":"r"}}"#;

    #[test]
    fn a_failed_test_links_to_its_finding_and_names_stay_text() {
        let outcome: Outcome = serde_json::from_str(FAILED).expect("it is an outcome");
        let runs = [Run { name: "a-12345678".to_owned(), link: "/run/0".to_owned() }];
        let page = page(Path::new("target/everhold"), &[outcome], &runs);
        for expected in [
            "a&lt;b",
            "<a href=\"/run/0\">always &quot;two&quot;</a>",
            "7 steps, 1 fault",
            "1,234",
            "2 of 3 pairs",
            "✗ always &quot;two&quot;",
            "· always &quot;one&quot;: not violated in 1,234 executions",
            "! sometimes &quot;g&quot;: never reached",
            "everhold replay a-12345678",
        ] {
            assert!(page.contains(expected), "{expected} is not in {page}");
        }
    }
}
