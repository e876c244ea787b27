//! Finds the names of addresses: kernel functions, and functions of the programs that were mapped.
//!
//! The kernel lists its functions in /proc/kallsyms, with addresses of zero for users without the
//! permission (`kptr_restrict`). An address in user code has the name of its file, and of the
//! function if the file has a symbol table.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub struct Kernel {
    /// The addresses and names, in ascending order.
    functions: Vec<(u64, Box<str>)>,
}

impl Kernel {
    /// Reads the functions of the running kernel; there are none if they are hidden.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// Parses lines such as `ffffffff81612ed5 t find_mergeable_anon_vma`, with a module's name at the
    /// end.
    pub(super) fn parse(text: &str) -> Self {
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(function).collect();
        functions.sort_unstable();
        functions.dedup_by_key(|function| function.0);
        Self { functions }
    }

    /// Returns whether no function is known.
    pub fn is_hidden(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the function that contains `address`.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|(start, _)| *start <= address);
        let (_, name) = self.functions.get(after.checked_sub(1)?)?;
        Some(name)
    }
}

fn function(line: &str) -> Option<(u64, Box<str>)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    // A symbol with the prefix '__pfx_' is no function, but the padding before one (6.2).
    (address != 0 && is_code && !name.starts_with("__pfx_")).then(|| (address, name.into()))
}

/// The mappings of a process, by address.
#[derive(Debug, Clone, Default)]
pub struct Mappings(BTreeMap<u64, Mapping>);

/// A mapping of code.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// Its length in bytes.
    pub len: u64,
    /// The offset in the file at which it begins.
    pub offset: u64,
    /// The file's path, or the kernel's name for it, such as `[vdso]`.
    pub file: String,
}

impl Mappings {
    /// Adds a mapping.
    pub fn add(&mut self, start: u64, mapping: Mapping) {
        self.0.insert(start, mapping);
    }

    fn at(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.0.range(..=address).next_back()?;
        (address - start < mapping.len).then_some((start, mapping))
    }
}

/// The functions of files, each of which is read once.
#[derive(Debug, Default)]
pub struct Files(HashMap<String, File>);

/// The functions of one file, by their address in it.
#[derive(Debug, Default)]
struct File {
    /// For each segment, its offset in the file, its length, and the address at which it is to be
    /// mapped.
    segments: Vec<(u64, u64, u64)>,
    /// The address, size and linker name of each function, in ascending order.
    functions: Vec<(u64, u64, Box<str>)>,
}

impl Files {
    /// Returns the name of `address`: `[file] function`, or `[file]`.
    pub fn name(&mut self, mappings: &Mappings, address: u64) -> String {
        let Some((start, mapping)) = mappings.at(address) else {
            return "[unknown]".to_owned();
        };
        let file = self
            .0
            .entry(mapping.file.clone())
            .or_insert_with(|| File::read(&mapping.file).unwrap_or_default());
        let short = Path::new(&mapping.file)
            .file_name()
            .map_or(mapping.file.clone(), |name| {
                name.to_string_lossy().into_owned()
            });
        let short = short.trim_matches(['[', ']']);
        match file.function(address - start + mapping.offset) {
            Some(name) => format!("[{short}] {:#}", rustc_demangle::demangle(name)),
            None => format!("[{short}]"),
        }
    }
}

impl File {
    /// The size of the largest file that is read for its symbols.
    const LARGEST: u64 = 1 << 29;

    fn read(path: &str) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        if !metadata.is_file() || metadata.len() > Self::LARGEST {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segments = file
            .segments()
            .map(|segment| {
                let (offset, len) = segment.file_range();
                (offset, len, segment.address())
            })
            .collect();
        let mut functions: Vec<(u64, u64, Box<str>)> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                Some((symbol.address(), symbol.size(), symbol.name().ok()?.into()))
            })
            .collect();
        functions.sort_unstable();
        Some(Self {
            segments,
            functions,
        })
    }

    fn function(&self, offset: u64) -> Option<&str> {
        let (from, _, to) = self
            .segments
            .iter()
            .find(|(from, len, _)| (*from..from + len).contains(&offset))?;
        let address = offset - from + to;
        let after = self
            .functions
            .partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < *size).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list as root sees it, and as other users see it.
    const SEEN: &str = "\
ffffffff81000000 T _stext
ffffffff81402000 t __pfx_pipe_lock
ffffffff81402010 t pipe_lock
ffffffff81402050 T pipe_unlock
ffffffff81402090 d pipe_ops
ffffffffc0001000 t ext4_read\t[ext4]
";

    #[test]
    fn an_address_is_in_the_function_before_it() {
        let kernel = Kernel::parse(SEEN);
        assert_eq!(kernel.name(0xffff_ffff_8140_2010), Some("pipe_lock"));
        assert_eq!(kernel.name(0xffff_ffff_8140_204f), Some("pipe_lock"));
        assert_eq!(kernel.name(0xffff_ffff_8140_2099), Some("pipe_unlock"));
        assert_eq!(kernel.name(0xffff_ffff_c000_1001), Some("ext4_read"));
        assert_eq!(kernel.name(0x1000), None);
        assert!(!kernel.is_hidden());
    }

    #[test]
    fn addresses_of_zero_are_hidden_ones() {
        let hidden: String = SEEN
            .lines()
            .map(|line| format!("0000000000000000{}\n", &line[16..]))
            .collect();
        let kernel = Kernel::parse(&hidden);
        assert!(kernel.is_hidden());
        assert_eq!(kernel.name(0xffff_ffff_8140_2010), None);
        assert!(Kernel::parse("").is_hidden());
    }

    #[test]
    fn user_code_is_called_by_its_file_and_its_function() {
        let this = std::env::current_exe().unwrap();
        let here = user_code_is_called_by_its_file_and_its_function as fn() as usize as u64;
        let maps = procfs::process::Process::myself().unwrap().maps().unwrap();
        let map = maps
            .iter()
            .find(|map| (map.address.0..map.address.1).contains(&here))
            .unwrap();
        let mut mappings = Mappings::default();
        mappings.add(
            map.address.0,
            Mapping {
                len: map.address.1 - map.address.0,
                offset: map.offset,
                file: this.to_string_lossy().into_owned(),
            },
        );
        let name = Files::default().name(&mappings, here);
        assert!(
            name.ends_with("user_code_is_called_by_its_file_and_its_function"),
            "{name}"
        );
        assert_eq!(Files::default().name(&mappings, 1), "[unknown]");
    }
}
