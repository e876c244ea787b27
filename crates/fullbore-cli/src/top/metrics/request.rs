//! The answer to a request over HTTP/1.1. httparse parses the request; nothing in it is kept, printed or
//! used, except for its method, its path, the host that it names and the formats that it accepts.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The most bytes of a request that are read: its line and its headers. A scrape has a few hundred.
pub const MOST_OF_REQUEST: usize = 8192;

/// The most headers of a request.
const MOST_HEADERS: usize = 64;

/// The answer to a client.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code and its reason.
    pub status: &'static str,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body, which is shared by all answers with the same content.
    pub body: Arc<[u8]>,
}

/// The format of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, which every client reads.
    Text,
    /// The OpenMetrics format, for the clients that ask for it.
    OpenMetrics,
}

/// Returns the head and the body of the answer, once the request is complete or wrong. `page` makes the page.
pub fn answer(
    request: &[u8],
    is_local: bool,
    page: impl FnOnce(Format) -> Answer,
) -> Option<(Vec<u8>, Arc<[u8]>)> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let status = match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => None,
        Ok(httparse::Status::Partial) if request.len() < MOST_OF_REQUEST => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Some("431 Request Header Fields Too Large")
        }
        Err(_) => Some("400 Bad Request"),
    };
    let path = parsed.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let is_head = parsed.method == Some("HEAD");
    let mut allow = "";
    let answer = match (status, parsed.method, path) {
        (Some(status), ..) => refusal(status),
        (None, ..) if is_local && !is_meant_for_loopback(&parsed) => {
            refusal("421 Misdirected Request")
        }
        (None, Some("GET" | "HEAD"), "/metrics") => page(format_for(&parsed)),
        (None, _, "/metrics") => {
            allow = "Allow: GET, HEAD\r\n";
            refusal("405 Method Not Allowed")
        }
        _ => refusal("404 Not Found"),
    };
    let head = format!(
        "HTTP/1.1 {}\r\n{allow}Content-Type: {}\r\nContent-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.content_type,
        answer.body.len(),
    );
    let body = if is_head { Arc::default() } else { answer.body };
    Some((head.into_bytes(), body))
}

/// Returns an answer that says no more than its status and a hint.
fn refusal(status: &'static str) -> Answer {
    let hint = match status.split(' ').next() {
        Some("404") => ": use /metrics",
        Some("421") => ": use localhost or a numeric address",
        _ => "",
    };
    Answer {
        status,
        content_type: "text/plain; charset=utf-8",
        body: format!("{status}{hint}\n").into_bytes().into(),
    }
}

/// Returns whether a request names this machine as its own programs do: by a numeric address, or as localhost
/// (RFC 6761, 6.3). A web page of another site may have its own name resolve to the loopback address (DNS
/// rebinding), and the browser sends that name with the requests of the page.
fn is_meant_for_loopback(request: &httparse::Request<'_, '_>) -> bool {
    let mut hosts = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("host"));
    hosts
        .all(|host| std::str::from_utf8(host.value).is_ok_and(|host| is_loopback_name(host.trim())))
}

/// Returns whether a host, with or without a port, is localhost or a numeric address.
fn is_loopback_name(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.split(']').next().unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let name = host.split(':').next().unwrap_or_default();
    let name = name.strip_suffix('.').unwrap_or(name);
    name.parse::<IpAddr>().is_ok()
        || name
            .rsplit('.')
            .next()
            .is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}

/// Returns the format that the client accepts: a scraper that reads OpenMetrics says so in its request.
fn format_for(request: &httparse::Request<'_, '_>) -> Format {
    let accepted = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("accept"))
        .filter_map(|header| std::str::from_utf8(header.value).ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|kind| {
            kind.trim()
                .eq_ignore_ascii_case("application/openmetrics-text")
        });
    match accepted {
        true => Format::OpenMetrics,
        false => Format::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the head and the body of an answer, with a page of three bytes whose type is its format.
    /// Counts how often the page is made.
    fn said(asked: &mut usize, request: &[u8]) -> String {
        let page = |format| {
            *asked += 1;
            Answer {
                status: "200 OK",
                content_type: match format {
                    Format::Text => "text",
                    Format::OpenMetrics => "open",
                },
                body: Arc::from(*b"###"),
            }
        };
        let (head, body) = answer(request, true, page).unwrap();
        String::from_utf8([&head, &*body].concat()).unwrap()
    }

    #[test]
    fn only_the_page_can_be_had_and_only_read() {
        let mut asked = 0;
        for (request, status, has) in [
            ("GET /metrics HTTP/1.1", "200 OK", "Content-Length: 3"),
            ("GET /metrics HTTP/1.0", "200 OK", "Content-Type: text"),
            ("GET /metrics?x=1 HTTP/1.1", "200 OK", "Connection: close"),
            ("HEAD /metrics HTTP/1.1", "200 OK", "Content-Length: 3"),
            ("GET / HTTP/1.1", "404 Not Found", "use /metrics"),
            ("GET /metrics/ HTTP/1.1", "404 Not Found", ""),
            ("GET /../metrics HTTP/1.1", "404 Not Found", ""),
            (
                "POST /metrics HTTP/1.1",
                "405 Method Not Allowed",
                "Allow: GET, HEAD\r\n",
            ),
            (
                "PUT /metrics HTTP/1.1",
                "405 Method Not Allowed",
                "Allow: GET, HEAD\r\n",
            ),
            (
                "DELETE /metrics HTTP/1.1",
                "405 Method Not Allowed",
                "Allow: GET, HEAD\r\n",
            ),
            (
                "OPTIONS /metrics HTTP/1.1",
                "405 Method Not Allowed",
                "Allow: GET, HEAD\r\n",
            ),
            ("get /metrics HTTP/1.1", "405 Method Not Allowed", ""),
            ("POST / HTTP/1.1", "404 Not Found", ""),
            ("GET /metrics HTTP/2.0", "400 Bad Request", ""),
            ("GET /metrics", "400 Bad Request", ""),
            ("\x16\x03\x01\x02", "400 Bad Request", ""),
            ("GET /\u{e4}\x07 HTTP/1.1", "400 Bad Request", ""),
            ("GET /metrics HTTP/1.1\r\nno colon", "400 Bad Request", ""),
        ] {
            let answer = said(&mut asked, format!("{request}\r\n\r\n").as_bytes());
            let first = format!("HTTP/1.1 {status}\r\n");
            assert!(answer.starts_with(&first), "{request}: {answer}");
            assert!(answer.contains(has), "{request}: {answer}");
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            let is_page = body == "###";
            let wants_page = request.starts_with("GET ") && status == "200 OK";
            assert_eq!(is_page, wants_page, "{request}: {answer}");
        }
        assert_eq!(asked, 4);
    }

    #[test]
    fn a_name_of_somebody_else_s_that_leads_to_loopback_is_refused() {
        let mut asked = 0;
        for (host, status) in [
            ("Host: localhost", "200 OK"),
            ("host: LocalHost:9464", "200 OK"),
            ("Host: top.localhost.:9464", "200 OK"),
            ("Host: 127.0.0.1:9464", "200 OK"),
            ("Host: [::1]:9464", "200 OK"),
            ("Host: 10.1.2.3", "200 OK"),
            ("Accept: */*", "200 OK"),
            ("Host: evil.example", "421 Misdirected Request"),
            ("Host: evil.example:9464", "421 Misdirected Request"),
            ("Host: localhost.evil.example", "421 Misdirected Request"),
            ("Host: 127.0.0.1.evil.example", "421 Misdirected Request"),
            ("Host: [evil]", "421 Misdirected Request"),
            ("Host: \u{e4}", "421 Misdirected Request"),
            (
                "Host: localhost\r\nHost: evil.example",
                "421 Misdirected Request",
            ),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n");
            let answer = said(&mut asked, request.as_bytes());
            let first = format!("HTTP/1.1 {status}\r\n");
            assert!(answer.starts_with(&first), "{host}: {answer}");
        }
        assert_eq!(asked, 7);
    }

    #[test]
    fn who_reads_open_metrics_gets_it() {
        let mut asked = 0;
        for (accept, kind) in [
            ("*/*", "text"),
            ("text/plain", "text"),
            ("application/openmetrics-text", "open"),
            (
                "text/html, Application/OpenMetrics-Text;version=1.0.0;q=0.5,*/*;q=0.1",
                "open",
            ),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\naccept: {accept}\r\n\r\n");
            let answer = said(&mut asked, request.as_bytes());
            let line = format!("Content-Type: {kind}\r\n");
            assert!(answer.contains(&line), "{accept}: {answer}");
        }
    }
}
