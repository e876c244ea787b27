//! The answer to a request over HTTP. Nothing in a request is kept, printed or used, except for its method, its
//! path and the host that it names.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The most bytes of a request that are read, its line and its headers, and the most headers. A scrape has a few
/// hundred bytes.
pub const MOST_OF_REQUEST: usize = 8192;
const MOST_HEADERS: usize = 64;

/// The answer to a client.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: Status,
    /// The media type of the body.
    pub content_type: &'static str,
    pub body: Arc<str>,
}

/// A status code with its words.
pub type Status = &'static str;
pub const OK: Status = "200 OK";
const BAD_REQUEST: Status = "400 Bad Request";
const NOT_FOUND: Status = "404 Not Found";
const NOT_ALLOWED: Status = "405 Method Not Allowed";
const MISDIRECTED: Status = "421 Misdirected Request";
const TOO_LARGE: Status = "431 Request Header Fields Too Large";
pub const UNAVAILABLE: Status = "503 Service Unavailable";

impl Answer {
    /// Returns what is sent, with or without the body.
    pub fn bytes(&self, has_body: bool) -> Vec<u8> {
        let allow = match self.status {
            NOT_ALLOWED => "Allow: GET, HEAD\r\n",
            _ => "",
        };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nX-Content-Type-Options: nosniff\r\n{allow}Content-Length: {}\r\n\
             Connection: close\r\nDate: {}\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len(),
            date()
        );
        let body = if has_body { &*self.body } else { "" };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// Returns the time as a header has it (RFC 9110, 5.6.7).
fn date() -> String {
    let now = jiff::Timestamp::now();
    jiff::fmt::rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&now)
        .unwrap_or_default()
}

/// Returns the path of a target, which may be a whole address (RFC 9112, 3.2).
fn path_of(target: &str) -> &str {
    let path = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    path.split(['?', '#']).next().unwrap_or_default()
}

/// Returns the bytes of the answer to what a client has sent so far; `None` if it is a part of a request, to which more
/// may be added unless it `is_full`.
pub fn answered(
    sent: &[u8],
    is_full: bool,
    is_local: bool,
    page: impl FnOnce() -> Answer,
) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    Some(match parsed.parse(sent) {
        Ok(httparse::Status::Partial) if !is_full => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            refusal(TOO_LARGE, "").bytes(true)
        }
        Err(_) => refusal(BAD_REQUEST, "").bytes(true),
        Ok(httparse::Status::Complete(_)) => {
            answer(&parsed, is_local, page).bytes(parsed.method != Some("HEAD"))
        }
    })
}

/// Returns the answer to a request. `page` makes the page.
fn answer(
    request: &httparse::Request<'_, '_>,
    is_local: bool,
    page: impl FnOnce() -> Answer,
) -> Answer {
    let headers = request.headers.iter();
    let mut hosts = headers.filter(|header| header.name.eq_ignore_ascii_case("host"));
    let path = path_of(request.path.unwrap_or_default());
    match (request.method.unwrap_or_default(), path) {
        // A web page of another site may have its own name resolve to the loopback address (DNS rebinding), and the
        // browser sends that name with the requests of the page.
        _ if is_local && !hosts.all(|host| is_loopback_name(host.value)) => {
            refusal(MISDIRECTED, ": use localhost or a numeric address")
        }
        ("GET" | "HEAD", "/metrics") => page(),
        (_, "/metrics") => refusal(NOT_ALLOWED, ""),
        _ => refusal(NOT_FOUND, ": use /metrics"),
    }
}

/// Returns an answer that says no more than its status and a hint.
pub fn refusal(status: Status, hint: &str) -> Answer {
    text(status, &format!("{status}{hint}"))
}

/// Returns an answer in a line of text.
pub fn text(status: Status, line: &str) -> Answer {
    Answer {
        status,
        content_type: "text/plain; charset=utf-8",
        body: format!("{line}\n").into(),
    }
}

/// Returns whether a host, with or without a port, is localhost (RFC 6761, 6.3) or a numeric address, by which the
/// programs of this machine name it. One that is no text is like an empty one.
fn is_loopback_name(host: &[u8]) -> bool {
    let host = std::str::from_utf8(host).unwrap_or_default();
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.split(']').next().unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let name = host.split(':').next().unwrap_or_default();
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    name.parse::<IpAddr>().is_ok() || last.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status, the answer's head and whether the body is the page, whose type is its format.
    fn said(method: &str, target: &str, hosts: &[&str]) -> (u16, String, bool) {
        let name = "Host";
        let headers = hosts.iter().map(|host| httparse::Header {
            name,
            value: host.as_bytes(),
        });
        let mut headers = Vec::from_iter(headers);
        let mut request = httparse::Request::new(&mut headers);
        (request.method, request.path) = (Some(method), Some(target));
        let mut asked = false;
        let page = || {
            asked = true;
            Answer {
                status: OK,
                content_type: "text",
                body: "###".into(),
            }
        };
        let answer = answer(&request, true, page);
        let code = answer.status[..3].parse().unwrap();
        let head = String::from_utf8(answer.bytes(false)).unwrap();
        (code, head, asked)
    }

    #[test]
    fn only_the_page_can_be_had_and_only_read() {
        for (method, path, status, has) in [
            ("GET", "/metrics", 200, "text"),
            ("GET", "/metrics?x=1", 200, "nosniff"),
            ("GET", "http://localhost/metrics", 200, ""),
            ("HEAD", "/metrics", 200, "text"),
            ("GET", "/", 404, "text/plain"),
            ("GET", "/metrics/", 404, ""),
            ("GET", "/../metrics", 404, ""),
            ("POST", "/metrics", 405, "Allow: GET, HEAD\r\n"),
            ("PUT", "/metrics", 405, "Allow: GET, HEAD\r\n"),
            ("DELETE", "/metrics", 405, "Allow: GET, HEAD\r\n"),
            ("OPTIONS", "/metrics", 405, "Allow: GET, HEAD\r\n"),
            ("OPTIONS", "*", 404, ""),
            ("get", "/metrics", 405, ""),
            ("POST", "/", 404, ""),
        ] {
            let (code, headers, is_page) = said(method, path, &[]);
            assert_eq!(code, status, "{method} {path}");
            assert!(headers.contains(has), "{method} {path}: {headers}");
            assert_eq!(is_page, status == 200, "{method} {path}");
        }
    }

    #[test]
    fn a_name_of_somebody_else_s_that_leads_to_loopback_is_refused() {
        for (hosts, status) in [
            (&["localhost"][..], 200),
            (&["LocalHost:9464"], 200),
            (&["top.localhost.:9464"], 200),
            (&["127.0.0.1:9464"], 200),
            (&["[::1]:9464"], 200),
            (&["10.1.2.3"], 200),
            (&[], 200),
            (&["evil.example"], 421),
            (&["evil.example:9464"], 421),
            (&["localhost.evil.example"], 421),
            (&["127.0.0.1.evil.example"], 421),
            (&["[evil]"], 421),
            (&[""], 421),
            (&["localhost", "evil.example"], 421),
        ] {
            let (code, _, is_page) = said("GET", "/metrics", hosts);
            assert_eq!(code, status, "{hosts:?}");
            assert_eq!(is_page, status == 200, "{hosts:?}");
        }
    }
}
