//! The decision which requests are answered.
//!
//! If there is a secret, every request must present it: in `x-everhold-secret`, as `Bearer`, or as the
//! password of `Basic`, for which browsers ask their users. Without a secret, all requests that reach
//! the address are answered, except those of other sites' pages in a browser, whose names are in `Host`
//! or in `Origin`.

use std::net::{IpAddr, SocketAddr};

use super::server::Request;

/// Makes a browser ask for the secret.
pub(super) const ASK: &str = "WWW-Authenticate: Basic realm=\"everhold watch\"\r\n";

/// The status and the reason with which a request is refused, if it is.
pub(super) fn refusal(request: &Request, secret: &[u8]) -> Option<(&'static str, &'static str)> {
    let host = request.host.as_deref().unwrap_or_default();
    if !secret.is_empty() && !is_same(request.secret.as_bytes(), secret) {
        return Some(("401 Unauthorized", "the shared secret is needed; give --secret-file"));
    }
    if secret.is_empty() && !host.is_empty() && !is_address(host) {
        return Some((
            "421 Misdirected Request",
            "without a secret, this watch answers only to its address, not to a name",
        ));
    }
    let origin = request
        .origin
        .as_deref()
        .map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    if request.method != "GET" && origin.is_some_and(|origin| origin != host) {
        return Some(("403 Forbidden", "pages of other sites may not change rules"));
    }
    None
}

/// The secret in an `Authorization` header.
pub(super) fn claimed(header: &str) -> Option<String> {
    let (kind, text) = header.split_once(' ')?;
    if kind.eq_ignore_ascii_case("bearer") {
        return Some(text.trim().to_owned());
    }
    let pair = String::from_utf8(from_base64(text.trim())?).ok()?;
    let (_, password) = pair.split_once(':').filter(|_| kind.eq_ignore_ascii_case("basic"))?;
    Some(password.to_owned())
}

/// Compares in a time that does not depend on the place of the first difference.
fn is_same(claimed: &[u8], secret: &[u8]) -> bool {
    let differ = claimed.iter().zip(secret).fold(0, |differ, (a, b)| differ | (a ^ b));
    claimed.len() == secret.len() && std::hint::black_box(differ) == 0
}

/// Returns whether the `Host` of a request is an address or `localhost`. A page of another site cannot
/// make such a name its own.
#[must_use]
pub fn is_address(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || host.parse::<SocketAddr>().is_ok()
        || bare.parse::<IpAddr>().is_ok()
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(digit)) & 0xfff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secret: &str, headers: &[(&str, &str)], method: &str, status: Option<&str>) {
        let mut request = Request { method: method.to_owned(), ..Request::default() };
        for (name, value) in headers {
            match *name {
                "authorization" => request.secret = claimed(value).unwrap_or_default(),
                "secret" => request.secret = (*value).to_owned(),
                "host" => request.host = Some((*value).to_owned()),
                _ => request.origin = Some((*value).to_owned()),
            }
        }
        let refused = refusal(&request, secret.as_bytes());
        assert_eq!(refused.map(|(status, _)| &status[..3]), status, "{headers:?}");
    }

    #[test]
    fn only_those_are_answered_who_may_be() {
        let own = ("host", "127.0.0.1:9464");
        check("", &[own], "GET", None);
        check("", &[("host", "[::1]:9464")], "GET", None);
        check("", &[("host", "localhost:9464")], "PUT", None);
        check("", &[], "GET", None);
        check("", &[("host", "evil.example:9464")], "GET", Some("421"));
        check("", &[own, ("origin", "http://evil.example")], "PUT", Some("403"));
        check("", &[own, ("origin", "null")], "PATCH", Some("403"));
        check("", &[own, ("origin", "http://127.0.0.1:9464")], "PUT", None);
        for headers in
            [&[][..], &[("secret", "")], &[("secret", "open")], &[("secret", "open barle")]]
        {
            check("open barley", headers, "GET", Some("401"));
        }
        check("open barley", &[("secret", "open barley"), ("host", "watch.example")], "GET", None);
        check("open barley", &[("authorization", "Bearer open barley")], "GET", None);
        check("open barley", &[("authorization", "Basic YW5hOm9wZW4gYmFybGV5")], "GET", None);
        check("open barley", &[("authorization", "Basic !!")], "GET", Some("401"));
        let evil = [("secret", "open barley"), ("origin", "http://evil.example"), own];
        check("open barley", &evil, "PUT", Some("403"));
    }
}
