//! Text that experiments use as data: lines as web servers write them.

use std::fmt::Write;

/// The seed of all data that experiments use: each run has the same.
pub const SEED: u64 = 1973;

/// Returns lines in the Combined Log Format of web servers, at least so many bytes of them.
pub fn log_lines(at_least: usize) -> Vec<u8> {
    const PAGES: [&str; 5] = ["shop/item", "api/v2/order", "img", "blog", "static/css"];
    const AGENTS: [&str; 4] = [
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Safari/537.36",
        "curl/8.5.0",
        "Mozilla/5.0 (compatible; bot/2.1)",
    ];
    // Each of these codes is the status of one request in 16; the others have 200.
    const CODES: [u16; 4] = [304, 301, 404, 500];
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut text = String::with_capacity(at_least + 300);
    let mut second = 0;
    while text.len() < at_least {
        second += random.u32(..2);
        let code = match random.usize(..16) {
            n if n < CODES.len() => CODES[n],
            _ => 200,
        };
        let _ = writeln!(
            text,
            "203.0.{}.{} - - [10/Oct/2025:{:02}:{:02}:{:02} +0000] \"GET /{}/{} HTTP/1.1\" {code} {} \"-\" \"{}\"",
            random.u8(..16),
            random.u8(..),
            second / 3600 % 24,
            second / 60 % 60,
            second % 60,
            PAGES[random.usize(..PAGES.len())],
            random.u32(..100_000),
            random.u32(..200_000),
            AGENTS[random.usize(..AGENTS.len())],
        );
    }
    text.into_bytes()
}
