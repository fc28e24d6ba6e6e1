//! For other programs: metrics, status, control, webhooks.
//!
//! A small HTTP listener with `GET /metrics` (Prometheus), `GET /status.json`, the traces of
//! violations, `GET /rules` and `PUT /rules`; and alerts posted in the format of Alertmanager's
//! webhooks.

mod access;
mod http;
mod metrics;
mod outbox;
pub mod server;
mod status;
mod webhook;

pub use access::is_address;
pub use http::{AskError, Pages, Served, ask, ask_over, serve, serve_over};
pub use metrics::metrics;
pub use status::{RuleStanding, Standing, status};
pub use webhook::{BadAddress, Webhook, alert};

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
