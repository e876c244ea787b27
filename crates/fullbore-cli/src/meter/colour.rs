//! Colours in a format: names become the sequences of console_codes(4).

/// Returns the sequence of console_codes(4) for names such as `bold,red`, `bg-blue` or numbers.
pub fn colour(names: &str) -> String {
    const COLOURS: [&str; 8] = [
        "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
    ];
    #[rustfmt::skip]
    const MODES: [(&str, u8); 8] = [
        ("none", 0), ("reset", 0), ("bold", 1), ("dim", 2),
        ("italic", 3), ("underscore", 4), ("blink", 5), ("reverse", 7),
    ];
    let code = |name: &str| {
        let (name, base) = match name.strip_prefix("bg-") {
            Some(name) => (name, 40),
            None => (name.strip_prefix("fg-").unwrap_or(name), 30),
        };
        let of_colour = COLOURS.iter().position(|&one| one == name);
        let of_colour = of_colour.map(|at| base + at as u8);
        let of_mode = MODES.iter().find(|(one, _)| *one == name);
        let of_name = of_colour.or(of_mode.map(|&(_, code)| code));
        of_name.or_else(|| name.parse().ok())
    };
    let codes = names.split(',').filter_map(code);
    let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
    match codes.is_empty() {
        true => String::new(),
        false => format!("\x1b[{}m", codes.join(";")),
    }
}
