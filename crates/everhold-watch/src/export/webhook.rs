//! Alerts, posted in the format of Alertmanager's webhooks.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use everhold_tls::ClientTls;

use super::outbox::{Kept, Outbox};
use super::{ask_over, rfc3339};
use crate::intake::now_micros;
use crate::notice::{Certainty, Notice};

/// Posts alerts to `http://HOST:PORT/PATH` or `https://...`, from a thread of its own, so that a slow
/// receiver delays nothing else. An alert that cannot be delivered is tried again, in order, for an
/// hour. An alert that is given up, or finds 4,096 others waiting, is reported as a problem.
#[derive(Debug)]
pub struct Webhook {
    outbox: Arc<Outbox>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

/// The time after which an alert that cannot be delivered is given up.
const KEPT: Duration = Duration::from_secs(3_600);

/// The delay before the first new attempt to deliver an alert; it doubles with each attempt.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(15);

/// The reason why a webhook cannot go to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadAddress {
    /// It is an `http://` address, and TLS was given.
    NeedsNoTls(String),
    /// It is an `https://` address, and no TLS was given.
    NeedsTls(String),
    /// It is no address of HTTP.
    NotHttp(String),
    /// The folder does not take the file of the alerts that wait.
    NoFolder(String),
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadAddress::NeedsNoTls(url) => write!(f, "{url}: TLS is for https:// addresses"),
            BadAddress::NeedsTls(url) => write!(f, "{url}: an https:// address needs TLS"),
            BadAddress::NotHttp(url) => {
                write!(f, "{url}: webhooks go to http:// or https:// addresses")
            }
            BadAddress::NoFolder(error) => write!(f, "alerts cannot be kept: {error}"),
        }
    }
}

impl std::error::Error for BadAddress {}

impl Webhook {
    /// A webhook to this `http://` address.
    ///
    /// ```
    /// use everhold_watch::export::{BadAddress, Webhook};
    ///
    /// assert!(Webhook::start("http://127.0.0.1:9/alerts", |trouble| eprintln!("{trouble}")).is_ok());
    /// let wrong = Webhook::start("ftp://127.0.0.1/alerts", drop).unwrap_err();
    /// assert_eq!(wrong, BadAddress::NotHttp("ftp://127.0.0.1/alerts".to_owned()));
    /// ```
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn start(
        url: &str,
        trouble: impl Fn(String) + Send + 'static,
    ) -> Result<Webhook, BadAddress> {
        Webhook::start_over(None, url, None, trouble)
    }

    /// A webhook to this address: `https://` with TLS, `http://` without. Alerts that wait are kept in
    /// the folder, if there is one, so that a process that is killed loses none: the next one goes on
    /// with them.
    ///
    /// # Errors
    ///
    /// If it is neither, or if the folder cannot be used.
    pub fn start_over(
        tls: Option<ClientTls>,
        url: &str,
        folder: Option<&Path>,
        trouble: impl Fn(String) + Send + 'static,
    ) -> Result<Webhook, BadAddress> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let port = match (scheme, &tls) {
            ("http", None) => 80,
            ("https", Some(_)) => 443,
            ("http", Some(_)) => return Err(BadAddress::NeedsNoTls(url.to_owned())),
            ("https", None) => return Err(BadAddress::NeedsTls(url.to_owned())),
            _ => return Err(BadAddress::NotHttp(url.to_owned())),
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        let path = format!("/{path}");
        let outbox = match folder.map(Outbox::open) {
            None => Outbox::default(),
            Some(Ok(outbox)) => outbox,
            Some(Err(error)) => return Err(BadAddress::NoFolder(error.to_string())),
        };
        let outbox = Arc::new(outbox);
        let queue = Arc::clone(&outbox);
        thread::spawn(move || {
            while let Some(kept) = queue.next() {
                deliver(&kept, tls.as_ref(), &host, &path, &trouble);
                let lost = queue.pop();
                if lost > 0 {
                    trouble(format!("{lost} alerts were not delivered: too many wait"));
                }
            }
        });
        Ok(Webhook { outbox })
    }

    /// Posts what a notice says, if it begins or ends a violation.
    pub fn tell(&self, notice: &Notice) {
        if let Some(alert) = alert(notice) {
            self.outbox.push(alert);
        }
    }

    /// Waits until all alerts are delivered, at most so long; returns how many are not.
    #[must_use]
    pub fn wait(&self, longest: Duration) -> usize {
        self.outbox.wait(longest)
    }
}

fn deliver(
    kept: &Kept,
    tls: Option<&ClientTls>,
    host: &str,
    path: &str,
    trouble: &impl Fn(String),
) {
    let (mut again, mut told) = (AGAIN, false);
    while let Err(error) = ask_over(tls, host, "POST", path, "", &kept.alert.to_string()) {
        let waited = Duration::from_micros(now_micros().saturating_sub(kept.since));
        if waited > KEPT {
            return trouble(format!("an alert was not delivered and is given up: {error}"));
        }
        if !std::mem::replace(&mut told, true) {
            trouble(format!("an alert was not delivered, trying again: {error}"));
        }
        thread::sleep(again);
        again = (again * 2).min(AGAIN_MAX);
    }
}

/// The body of Alertmanager's webhook for a notice.
#[must_use]
pub fn alert(notice: &Notice) -> Option<Json> {
    let (status, id, rule, key, starts, ends, summary) = match notice {
        Notice::Fired(v) => {
            let witness: Vec<String> =
                v.witness.iter().map(|(text, value)| format!("{text} = {value}")).collect();
            let possibly = match v.certainty {
                Certainty::Definite => "",
                Certainty::Possible { .. } => "possibly violated: ",
            };
            let summary = format!("{possibly}{}: {}", v.reason, witness.join(", "));
            ("firing", v.id, &v.rule, &v.key, v.at, None, summary)
        }
        Notice::Resolved { id, rule, key, since, at } => {
            ("resolved", *id, rule, key, *since, Some(*at), "it holds again".to_owned())
        }
        _ => return None,
    };
    let mut labels = json!({ "alertname": rule, "id": id.to_string() });
    if let Notice::Fired(v) = notice
        && v.certainty != Certainty::Definite
    {
        labels["certainty"] = json!("possible");
    }
    if let Some(key) = key {
        labels["key"] = json!(key.to_string());
    }
    let ends = ends.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |at| rfc3339(at.micros()));
    Some(json!({
        "version": "4",
        "groupKey": format!("{{alertname={rule:?}}}"),
        "status": status,
        "receiver": "everhold",
        "groupLabels": { "alertname": rule },
        "commonLabels": labels,
        "commonAnnotations": {},
        "externalURL": "",
        "truncatedAlerts": 0,
        "alerts": [{
            "status": status,
            "labels": labels,
            "annotations": { "summary": summary },
            "startsAt": rfc3339(starts.micros()),
            "endsAt": ends,
            "generatorURL": "",
            "fingerprint": id.to_string(),
        }],
    }))
}
