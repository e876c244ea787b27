//! The answer to a request over HTTP. Nothing in a request is kept, printed or used, except for its method, its
//! path, the host that it names and the formats that it accepts.

use std::net::{IpAddr, Ipv6Addr};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

/// The answer to a client.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
}

/// The format of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, which every client reads.
    Text,
    /// The OpenMetrics format, for the clients that ask for it.
    OpenMetrics,
}

/// Returns the answer to a request. `page` makes the page.
pub fn answer<B>(
    request: &Request<B>,
    is_local: bool,
    page: impl FnOnce(Format) -> Answer,
) -> Response<Full<Bytes>> {
    let answer = match (request.method(), request.uri().path()) {
        _ if is_local && !is_meant_for_loopback(request) => refusal(
            StatusCode::MISDIRECTED_REQUEST,
            ": use localhost or a numeric address",
        ),
        (&Method::GET | &Method::HEAD, "/metrics") => page(format_for(request)),
        (_, "/metrics") => refusal(StatusCode::METHOD_NOT_ALLOWED, ""),
        _ => refusal(StatusCode::NOT_FOUND, ": use /metrics"),
    };
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    let headers = [
        (header::CONTENT_TYPE, answer.content_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let is_refused = answer.status == StatusCode::METHOD_NOT_ALLOWED;
    let allow = is_refused.then_some((header::ALLOW, "GET, HEAD"));
    for (name, value) in headers.into_iter().chain(allow) {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns an answer that says no more than its status and a hint.
fn refusal(status: StatusCode, hint: &str) -> Answer {
    Answer {
        status,
        content_type: "text/plain; charset=utf-8",
        body: format!("{status}{hint}\n").into(),
    }
}

/// Returns the values of a header that are text, and an empty one for each that is none.
fn values<B>(request: &Request<B>, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = request.headers().get_all(name).into_iter();
    values.map(|value| std::str::from_utf8(value.as_bytes()).unwrap_or_default())
}

/// Returns whether a request names this machine as its own programs do: by a numeric address, or as localhost
/// (RFC 6761, 6.3). A web page of another site may have its own name resolve to the loopback address (DNS
/// rebinding), and the browser sends that name with the requests of the page.
fn is_meant_for_loopback<B>(request: &Request<B>) -> bool {
    values(request, header::HOST).all(is_loopback_name)
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
fn format_for<B>(request: &Request<B>) -> Format {
    let accepted = values(request, header::ACCEPT)
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

    /// Returns the status, the headers and whether the body is the page, whose type is its format.
    fn said(method: &str, path: &str, headers: &[(&str, &str)]) -> (StatusCode, String, bool) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        let mut asked = false;
        let page = |format| {
            asked = true;
            Answer {
                status: StatusCode::OK,
                content_type: match format {
                    Format::Text => "text",
                    Format::OpenMetrics => "open",
                },
                body: Bytes::from_static(b"###"),
            }
        };
        let response = answer(&request.body(()).unwrap(), true, page);
        let headers = format!("{:?}", response.headers());
        (response.status(), headers, asked)
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
            ("POST", "/metrics", 405, "\"GET, HEAD\""),
            ("PUT", "/metrics", 405, "\"GET, HEAD\""),
            ("DELETE", "/metrics", 405, "\"GET, HEAD\""),
            ("OPTIONS", "/metrics", 405, "\"GET, HEAD\""),
            ("OPTIONS", "*", 404, ""),
            ("get", "/metrics", 405, ""),
            ("POST", "/", 404, ""),
        ] {
            let (code, headers, is_page) = said(method, path, &[]);
            assert_eq!(code.as_u16(), status, "{method} {path}");
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
            (&["\u{e4}"], 421),
            (&[""], 421),
            (&["localhost", "evil.example"], 421),
        ] {
            let headers: Vec<_> = hosts.iter().map(|host| ("Host", *host)).collect();
            let (code, _, is_page) = said("GET", "/metrics", &headers);
            assert_eq!(code.as_u16(), status, "{hosts:?}");
            assert_eq!(is_page, status == 200, "{hosts:?}");
        }
    }

    #[test]
    fn who_reads_open_metrics_gets_it() {
        for (accept, kind) in [
            ("*/*", "text"),
            ("text/plain", "text"),
            ("application/openmetrics-text", "open"),
            (
                "text/html, Application/OpenMetrics-Text;version=1.0.0;q=0.5,*/*;q=0.1",
                "open",
            ),
        ] {
            let (_, headers, _) = said("GET", "/metrics", &[("accept", accept)]);
            let has = format!("\"content-type\": \"{kind}\"");
            assert!(headers.contains(&has), "{accept}: {headers}");
        }
    }
}
