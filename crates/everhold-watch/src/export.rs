//! For other programs: metrics, control, webhooks.
//!
//! A small HTTP listener with `GET /metrics` (Prometheus), `GET /rules` and `PUT /rules`; and alerts
//! posted in the format of Alertmanager's webhooks.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::engine::Watch;
use crate::intake::IntakeCounts;
use crate::notice::Notice;

/// The metrics of a watch, in Prometheus' text format.
#[must_use]
pub fn metrics(watch: &Watch, intake: Option<&IntakeCounts>) -> String {
    let mut text = String::new();
    let status = watch.status();
    let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
        let _ = writeln!(text, "# HELP everhold_{name} {help}\n# TYPE everhold_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(text, "everhold_{name}{labels} {value}");
        }
    };
    let rules = |value: &dyn Fn(&(crate::rule::RuleCounts, usize, bool)) -> f64| {
        let rows = status.iter().flat_map(|(partition, status)| {
            status.rules.iter().map(move |(rule, counts)| (partition, rule, counts))
        });
        let rows = rows.map(|(partition, rule, counts)| {
            let labels = format!("{{rule=\"{}\",partition=\"{partition}\"}}", escaped(rule));
            (labels, value(counts))
        });
        rows.collect::<Vec<_>>()
    };
    let partitions = |value: &dyn Fn(&crate::engine::PartitionStatus) -> f64| {
        let label = |partition| format!("{{partition=\"{partition}\"}}");
        status.iter().map(|(p, status)| (label(p), value(status))).collect::<Vec<_>>()
    };
    family("evaluations_total", "counter", "Snapshots judged.", rules(&|r| r.0.evaluations as f64));
    family("unknown_total", "counter", "Of these, undecided.", rules(&|r| r.0.unknown as f64));
    family("violations_total", "counter", "Violations begun.", rules(&|r| r.0.violations as f64));
    family("violations_firing", "gauge", "Violations that go on.", rules(&|r| r.1 as f64));
    family("rule_disabled", "gauge", "1 if too expensive.", rules(&|r| f64::from(u8::from(r.2))));
    let seconds = rules(&|r| r.0.nanos as f64 / 1e9);
    family("evaluation_seconds_total", "counter", "Time spent judging.", seconds);
    let lag = partitions(&|p| p.lag_micros as f64 / 1e6);
    family("lag_seconds", "gauge", "From arrival to judgement.", lag);
    family("records_total", "counter", "Records.", partitions(&|p| p.counts.records as f64));
    family("late_total", "counter", "Records too late.", partitions(&|p| p.counts.late as f64));
    family("dropped_total", "counter", "Records lost.", partitions(&|p| p.counts.dropped as f64));
    family("gaps_total", "counter", "Gaps in batches.", partitions(&|p| p.counts.gaps as f64));
    let ahead = partitions(&|p| p.counts.ahead as f64);
    family("clock_ahead_total", "counter", "Records with impossible stamps.", ahead);
    family("nodes", "gauge", "Nodes that are up.", partitions(&|p| p.sizes.1 as f64));
    family("state_keys", "gauge", "Keys in the snapshot.", partitions(&|p| p.sizes.0 as f64));
    family("waiting", "gauge", "Records that wait.", partitions(&|p| p.sizes.2 as f64));
    let bytes = partitions(&|p| p.checkpoint_bytes as f64);
    family("checkpoint_bytes", "gauge", "Size of the last checkpoint.", bytes);
    let bad = partitions(&|p| p.bad_entries as f64);
    family("bad_entries_total", "counter", "Unreadable log entries.", bad);
    if let Some(intake) = intake {
        let one = |value: u64| vec![(String::new(), value as f64)];
        let value = one(intake.unwritten.load(Relaxed));
        family("unwritten_total", "counter", "Records the log could not take.", value);
        family("connections", "gauge", "Probes.", one(intake.connections.load(Relaxed)));
        family("refused_total", "counter", "Refusals.", one(intake.refused.load(Relaxed)));
    }
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Serves metrics and control until the process ends.
///
/// Rules are changed only by those who know the secret, if there is one.
///
/// # Errors
///
/// If the socket cannot be asked for its address.
pub fn serve(
    listener: TcpListener,
    watch: Arc<Watch>,
    intake: Option<Arc<IntakeCounts>>,
    secret: Vec<u8>,
) -> std::io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    thread::Builder::new().name("http".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
            let _ = stream.set_write_timeout(Some(Duration::from_secs(2)));
            let _ = answer(stream, &watch, intake.as_deref(), &secret);
        }
    })?;
    Ok(address)
}

/// The longest text of rules.
const BODY_MAX: usize = 1 << 20;

fn answer(
    mut stream: TcpStream,
    watch: &Watch,
    intake: Option<&IntakeCounts>,
    secret: &[u8],
) -> std::io::Result<()> {
    let Some(request) = read_request(&stream)? else { return Ok(()) };
    let (status, body) = match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/metrics") => ("200 OK", metrics(watch, intake)),
        ("GET", "/rules") => match watch.rules() {
            Some(text) => ("200 OK", text),
            None => ("503 Service Unavailable", "no partition is checked here".to_owned()),
        },
        ("PUT", "/rules") if !secret.is_empty() && request.secret.as_bytes() != secret => {
            ("403 Forbidden", "the shared secret is needed to change rules".to_owned())
        }
        ("PUT", "/rules") => match watch.set_rules(&request.body, "rules") {
            Ok(()) => ("200 OK", "in force\n".to_owned()),
            Err(message) => ("422 Unprocessable Content", message),
        },
        _ => ("404 Not Found", "there are /metrics and /rules\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

struct Request {
    method: String,
    path: String,
    secret: String,
    body: String,
}

fn read_request(stream: &TcpStream) -> std::io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream).take(BODY_MAX as u64);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let mut request = Request { method, path, secret: String::new(), body: String::new() };
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "x-everhold-secret" => value.trim().clone_into(&mut request.secret),
            _ => {}
        }
    }
    let mut body = vec![0; length.min(BODY_MAX)];
    reader.read_exact(&mut body)?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(request))
}

/// Asks a watch that runs elsewhere: `GET` or `PUT`, a path, a body; returns the answer.
///
/// # Errors
///
/// What the watch says if it is not `200`, or why it cannot be reached.
pub fn ask(
    address: &str,
    method: &str,
    path: &str,
    secret: &str,
    body: &str,
) -> Result<String, String> {
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\
             Content-Type: application/json\r\nx-everhold-secret: {secret}\r\n\
             Connection: close\r\n\r\n{body}"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = answer().map_err(|error| format!("{address}: {error}"))?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head.split_whitespace().nth(1).unwrap_or("");
    if code.starts_with('2') { Ok(body.to_owned()) } else { Err(body.to_owned()) }
}

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

/// A time as text, in UTC.
#[must_use]
pub fn rfc3339(micros: u64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's days-to-civil, for dates after 1970.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_read_them() {
        let check = |seconds: u64, text: &str| {
            assert_eq!(rfc3339(seconds * 1_000_000), format!("{text}.000000Z"));
        };
        check(0, "1970-01-01T00:00:00");
        check(951_827_696, "2000-02-29T12:34:56");
        check(1_735_689_599, "2024-12-31T23:59:59");
    }
}
