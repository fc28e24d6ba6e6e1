//! Alerts, posted as Alertmanager posts them.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use serde_json::{Value as Json, json};

use super::{ask, rfc3339};
use crate::notice::Notice;

/// Posts alerts to `http://HOST:PORT/PATH`, from a thread of its own: a slow receiver holds up
/// nobody, and what it cannot take is dropped and told.
#[derive(Debug)]
pub struct Webhook {
    alerts: SyncSender<Json>,
}

impl Webhook {
    /// A webhook to this address.
    ///
    /// # Errors
    ///
    /// If it is not an `http://` address.
    pub fn start(url: &str, trouble: impl Fn(String) + Send + 'static) -> Result<Webhook, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            format!("{url}: webhooks go to http:// addresses; put a proxy in front for others")
        })?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let path = format!("/{path}");
        let (alerts, queue) = sync_channel::<Json>(256);
        thread::spawn(move || {
            for alert in queue {
                if let Err(error) = ask(&host, "POST", &path, "", &alert.to_string()) {
                    trouble(format!("an alert was not delivered: {error}"));
                }
            }
        });
        Ok(Webhook { alerts })
    }

    /// Posts what a notice says, if it begins or ends a violation.
    pub fn tell(&self, notice: &Notice) {
        if let Some(alert) = alert(notice) {
            let _ = self.alerts.try_send(alert);
        }
    }
}

/// The body of Alertmanager's webhook for a notice.
#[must_use]
pub fn alert(notice: &Notice) -> Option<Json> {
    let (status, id, rule, key, starts, ends, summary) = match notice {
        Notice::Fired(v) => {
            let witness: Vec<String> =
                v.witness.iter().map(|(text, value)| format!("{text} = {value}")).collect();
            let summary = format!("{}: {}", v.reason, witness.join(", "));
            ("firing", v.id, &v.rule, &v.key, v.at, None, summary)
        }
        Notice::Resolved { id, rule, key, since, at } => {
            ("resolved", *id, rule, key, *since, Some(*at), "it holds again".to_owned())
        }
        _ => return None,
    };
    let mut labels = json!({ "alertname": rule, "id": id.to_string() });
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
