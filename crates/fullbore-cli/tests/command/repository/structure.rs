//! Tests that no two files of a crate import each other, neither directly nor through other files,
//! so that each part can be read, tested and extracted by itself.
//!
//! File A imports file B if a path in A names B's module or an item in it. A `mod` declaration is not
//! an import: a directory does not depend on the files in it. A path that ends at a directory's
//! `mod.rs`, because the item is defined or re-exported there, counts as an import of that file.
//! Imports that only tests need (`#[cfg(test)]`) do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, ItemUse, Macro, UseTree};

/// Known circles that have to be removed: each is a list of files, all of which import each other.
/// This list may only become shorter.
const KNOWN: &[&[&str]] = &[];

#[test]
fn no_two_files_of_a_crate_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    for root in crate_roots() {
        let imports = Crate::read(&root).imports();
        found.extend(circles(&imports).into_iter().map(|circle| {
            let arrows = arrows(&circle, &imports);
            (circle, arrows)
        }));
    }
    let known: Vec<BTreeSet<PathBuf>> = KNOWN
        .iter()
        .map(|files| files.iter().map(PathBuf::from).collect())
        .collect();
    let new: String = found
        .iter()
        .filter(|(circle, _)| !known.contains(circle))
        .map(|(circle, arrows)| format!("these {} files:\n{arrows}", circle.len()))
        .collect();
    assert!(new.is_empty(), "files import each other in a circle, {new}");
    for circle in &known {
        assert!(
            found.iter().any(|(found, _)| found == circle),
            "this circle is gone; take it out of the list KNOWN: {circle:?}"
        );
    }
}

/// The libraries that observe, or that show results, can be used without a command line and a
/// terminal.
#[test]
fn libraries_for_other_programs_depend_on_no_command_line_and_no_terminal() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in [
        "fullbore",
        "fullbore-host",
        "fullbore-linux",
        "fullbore-ring",
        "fullbore-observe",
        "fullbore-results",
    ] {
        let manifest = fs::read_to_string(crates.join(name).join("Cargo.toml")).unwrap();
        let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
        let named: Vec<&str> = dependencies
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .collect();
        assert!(
            named.contains(&"rustix") || named.contains(&"serde"),
            "{named:?}"
        );
        for banned in ["anyhow", "clap", "fullbore-lab", "fullbore-cli"] {
            assert!(!named.contains(&banned), "{name} depends on {banned}");
        }
    }
}

/// `{:?}` of a value goes into logs, and the bytes that a program moves do not belong there. So a type with bytes in a
/// field writes its own `Debug`.
#[test]
fn no_type_with_bytes_derives_debug() {
    let mut checked = 0;
    for root in crate_roots() {
        let folder = root.parent().unwrap();
        let is_library = folder.join("lib.rs").is_file();
        for file in glob::glob(folder.join("**/*.rs").to_str().unwrap()).unwrap() {
            let file = file.unwrap();
            let parsed = syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap();
            for item in &parsed.items {
                let (name, attributes, fields) = match item {
                    Item::Struct(it) => (&it.ident, &it.attrs, it.fields.iter().collect()),
                    Item::Enum(it) => {
                        let fields = it.variants.iter().flat_map(|it| &it.fields);
                        (&it.ident, &it.attrs, fields.collect::<Vec<_>>())
                    }
                    _ => continue,
                };
                let derives = |attribute: &Attribute| match &attribute.meta {
                    syn::Meta::List(list) => {
                        list.path.is_ident("derive") && list.tokens.to_string().contains("Debug")
                    }
                    _ => false,
                };
                if !is_library || !attributes.iter().any(derives) {
                    continue;
                }
                checked += 1;
                let is_of_bytes = |field: &&syn::Field| {
                    let of = words_of(|words| words.visit_type(&field.ty));
                    let mut slice = Slices(false);
                    slice.visit_type(&field.ty);
                    slice.0
                        || (of.contains("u8") && (of.contains("Vec") || of.contains("VecDeque")))
                };
                let bytes = fields.into_iter().find(is_of_bytes);
                assert!(
                    bytes.is_none(),
                    "{name} in {} derives Debug",
                    file.display()
                );
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

/// Whether a type has a slice or an array of bytes.
struct Slices(bool);

impl<'ast> Visit<'ast> for Slices {
    fn visit_type_slice(&mut self, slice: &'ast syn::TypeSlice) {
        self.0 |= words_of(|words| words.visit_type(&slice.elem)).contains("u8");
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.0 |= words_of(|words| words.visit_type(&array.elem)).contains("u8");
    }
}

/// A public function is a promise. This counts the functions and methods that a user of `fullbore` can call: those
/// of its own types, and those of the types of `fullbore-types` that it re-exports, without trait methods.
#[test]
fn the_library_promises_no_more_functions_than_it_says() {
    /// CONTRIBUTING.md has the same number.
    const MOST: usize = 105;
    let promised = promises();
    let functions: Vec<&Promise> = promised.iter().filter(|p| p.is_function).collect();
    assert!(functions.len() > MOST / 2, "{functions:#?}");
    let count = functions.len();
    assert!(
        count <= MOST,
        "{count} are more than {MOST}: {functions:#?}"
    );
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let contributing = fs::read_to_string(crates.parent().unwrap().join("CONTRIBUTING.md"));
    let says = format!("at most {MOST} public functions");
    assert!(contributing.unwrap().contains(&says), "{says}");
}

/// A new version of rustix must not be a new version of `fullbore`, nor must one of `fullbore-linux`, which has no
/// stable interface.
#[test]
fn no_type_of_rustix_and_of_fullbore_linux_is_in_what_the_library_promises() {
    let promised = promises();
    assert!(promised.iter().any(|p| p.words.contains("BorrowedFd")));
    assert!(promised.iter().any(|p| p.foreign.contains("Waiter")));
    for promise in promised {
        let foreign = promise
            .words
            .iter()
            .find(|word| promise.foreign.contains(*word));
        assert_eq!(foreign, None, "in {:?} {}", promise.owner, promise.name);
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for file in glob::glob(crates.join("fullbore/src/**/*.rs").to_str().unwrap()).unwrap() {
        let text = fs::read_to_string(file.unwrap()).unwrap();
        assert!(!text.contains("pub use fullbore_linux"), "{text}");
    }
}

/// What a user of `fullbore` can name: a function, a method, a field, a variant, or the heading of a type.
#[derive(Debug)]
struct Promise {
    owner: Option<String>,
    name: String,
    is_function: bool,
    /// The words of its declaration, without the body of a function.
    words: BTreeSet<String>,
    /// The names that its file has of rustix and of `fullbore-linux`.
    foreign: BTreeSet<String>,
}

/// Returns what `fullbore` promises: its own public items, and those of the types that it re-exports from
/// `fullbore-types`.
fn promises() -> Vec<Promise> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let root = fs::read_to_string(crates.join("fullbore/src/lib.rs")).unwrap();
    let (_, reexported) = root.split_once("pub use fullbore_types::{").unwrap();
    let reexported = reexported.split_once("};").unwrap().0;
    let names: BTreeSet<&str> = reexported.split(',').map(str::trim).collect();
    let mut promised = public_items(&crates.join("fullbore/src"));
    for promise in &mut promised {
        // The files import them from `fullbore-linux`, which re-exports them too.
        promise
            .foreign
            .retain(|name| !names.contains(name.as_str()));
    }
    let below = public_items(&crates.join("fullbore-types/src"));
    promised.extend(below.into_iter().filter(|promise| {
        let name = promise.owner.as_ref().unwrap_or(&promise.name);
        names.contains(name.as_str())
    }));
    promised
}

/// Returns what is declared `pub`, each with the type that it belongs to.
fn public_items(source: &Path) -> Vec<Promise> {
    let is_public = |visibility: &syn::Visibility| matches!(visibility, syn::Visibility::Public(_));
    let mut found = Vec::new();
    for file in glob::glob(source.join("**/*.rs").to_str().unwrap()).unwrap() {
        let parsed = syn::parse_file(&fs::read_to_string(file.unwrap()).unwrap()).unwrap();
        let foreign = foreign_names(&parsed);
        let mut add =
            |owner: Option<&str>, name: &syn::Ident, signature: Option<&syn::Signature>, words| {
                found.push(Promise {
                    owner: owner.map(str::to_owned),
                    name: name.to_string(),
                    is_function: signature.is_some(),
                    words,
                    foreign: foreign.clone(),
                });
            };
        for item in &parsed.items {
            match item {
                Item::Fn(function) if is_public(&function.vis) => {
                    let signature = &function.sig;
                    add(
                        None,
                        &signature.ident,
                        Some(signature),
                        words_of(|w| w.visit_signature(signature)),
                    );
                }
                Item::Struct(it) if is_public(&it.vis) => {
                    let owner = it.ident.to_string();
                    add(
                        Some(&owner),
                        &it.ident,
                        None,
                        words_of(|w| w.visit_generics(&it.generics)),
                    );
                    for field in it.fields.iter().filter(|field| is_public(&field.vis)) {
                        let name = field.ident.as_ref().unwrap_or(&it.ident);
                        add(
                            Some(&owner),
                            name,
                            None,
                            words_of(|w| w.visit_type(&field.ty)),
                        );
                    }
                }
                Item::Enum(it) if is_public(&it.vis) => {
                    let owner = it.ident.to_string();
                    for variant in &it.variants {
                        let words = words_of(|w| w.visit_fields(&variant.fields));
                        add(Some(&owner), &variant.ident, None, words);
                    }
                }
                Item::Impl(block) => {
                    let syn::Type::Path(owner) = &*block.self_ty else {
                        continue;
                    };
                    let owner = owner.path.segments.last().unwrap().ident.to_string();
                    if let Some((_, of, _)) = &block.trait_ {
                        let name = &of.segments.last().unwrap().ident;
                        add(Some(&owner), name, None, words_of(|w| w.visit_path(of)));
                        continue;
                    }
                    for item in &block.items {
                        let syn::ImplItem::Fn(method) = item else {
                            continue;
                        };
                        if is_public(&method.vis) {
                            let (signature, mut words) = (&method.sig, BTreeSet::new());
                            words.extend(words_of(|w| w.visit_signature(signature)));
                            words.extend(words_of(|w| w.visit_generics(&block.generics)));
                            add(Some(&owner), &signature.ident, Some(signature), words);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Collects identifiers.
struct Words(BTreeSet<String>);

impl<'ast> Visit<'ast> for Words {
    fn visit_ident(&mut self, word: &'ast syn::Ident) {
        self.0.insert(word.to_string());
    }
}

fn words_of(visit: impl FnOnce(&mut Words)) -> BTreeSet<String> {
    let mut words = Words(BTreeSet::new());
    visit(&mut words);
    words.0
}

/// Returns the names of rustix and of `fullbore-linux`, and those that a file imports from them.
fn foreign_names(file: &File) -> BTreeSet<String> {
    let crates = ["rustix", "fullbore_linux", "linux", "Errno", "SpliceFlags"];
    let mut names = BTreeSet::from(crates.map(str::to_owned));
    for item in &file.items {
        let Item::Use(import) = item else { continue };
        let mut paths = Paths::default();
        paths.add_tree(&import.tree, &[]);
        let foreign = paths
            .0
            .into_iter()
            .filter(|path| crates.contains(&path[0].as_str()));
        // What a module of rustix and std have in common is std's.
        names.extend(
            foreign
                .filter(|path| path.get(1).is_some_and(|module| module != "fd"))
                .filter_map(|path| path.last().cloned())
                // A module may have the name of one of std.
                .filter(|name| name.starts_with(char::is_uppercase)),
        );
    }
    names
}

/// A child has copies of all descriptors and all memory.
#[test]
fn every_type_with_descriptors_or_pages_says_what_a_child_of_fork_may_do() {
    const TYPES: [(&str, &[&str]); 4] = [
        ("fullbore-types", &["Pipe", "PipeEnd", "Cancel"]),
        (
            "fullbore",
            &[
                "Pages",
                "Producer",
                "Unfinished",
                "Repeat",
                "Consumer",
                "Transfer",
                "Tee",
                "Buffer",
            ],
        ),
        ("fullbore-ring", &["Producer", "Consumer"]),
        (
            "fullbore-tokio",
            &[
                "Producer",
                "Consumer",
                "Transfer",
                "Bidirectional",
                "Pool",
                "Counters",
            ],
        ),
    ];
    for (name, types) in TYPES {
        let sources: Vec<String> = glob::glob(&format!("../{name}/src/**/*.rs"))
            .unwrap()
            .map(|file| fs::read_to_string(file.unwrap()).unwrap())
            .collect();
        for wanted in types {
            let is_it = |line: &str| {
                let rest = line
                    .strip_prefix("pub struct ")
                    .and_then(|rest| rest.strip_prefix(wanted));
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            };
            let says = sources.iter().any(|text| {
                let lines: Vec<&str> = text.lines().collect();
                let at = lines.iter().position(|line| is_it(line));
                let above = |at| {
                    lines[..at]
                        .iter()
                        .rev()
                        .take_while(|l| l.starts_with("//") || l.starts_with("#["))
                };
                at.is_some_and(|at| above(at).any(|line| *line == "/// # fork"))
            });
            assert!(says, "{name}: {wanted} has no section '# fork'");
        }
    }
}

#[test]
fn a_circle_is_found_with_all_its_files_and_nothing_else() {
    let file = PathBuf::from;
    let imports = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "d")];
    let mut graph = Imports::new();
    for (from, to) in imports {
        graph.entry(file(from)).or_default().insert(file(to));
    }
    assert_eq!(circles(&graph), [BTreeSet::from([file("b"), file("c")])]);
}

/// The imports of each file.
type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Returns the `lib.rs` or `main.rs` of every crate in `crates/`.
fn crate_roots() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let roots: Vec<PathBuf> = fs::read_dir(crates)
        .unwrap()
        .flat_map(|entry| {
            let source = entry.unwrap().path().join("src");
            [source.join("lib.rs"), source.join("main.rs")]
        })
        .filter(|root| root.is_file())
        .collect();
    assert!(roots.len() > 1, "{roots:?}");
    roots
}

/// Returns the sets of files that can be reached from each other.
fn circles(imports: &Imports) -> Vec<BTreeSet<PathBuf>> {
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = imports
        .keys()
        .map(|file| {
            let mut reached = BTreeSet::new();
            let mut left = vec![file];
            while let Some(file) = left.pop() {
                let next = imports.get(file).into_iter().flatten();
                left.extend(next.filter(|&file| reached.insert(file)));
            }
            (file, reached)
        })
        .collect();
    let mut circles: Vec<BTreeSet<PathBuf>> = Vec::new();
    for (file, from_here) in &reached {
        let circle: BTreeSet<PathBuf> = from_here
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(file)))
            .map(|&other| other.clone())
            .collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// Returns the imports within a circle, one per line.
fn arrows(circle: &BTreeSet<PathBuf>, imports: &Imports) -> String {
    let arrow =
        |from: &PathBuf, to: &PathBuf| format!("  {} -> {}\n", from.display(), to.display());
    circle
        .iter()
        .flat_map(|from| {
            let inside = imports[from].iter().filter(|to| circle.contains(*to));
            inside.map(move |to| arrow(from, to))
        })
        .collect()
}

/// A module's path from the crate's root: `["lab", "report"]`.
type Name = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
struct Crate {
    /// The file of each module; an inline module has the file of its parent.
    files: BTreeMap<Name, PathBuf>,
    /// The paths in each module, as they are written.
    paths: Vec<(Name, Vec<String>)>,
}

impl Crate {
    fn read(root: &Path) -> Self {
        let mut all = Self::default();
        all.read_file(Vec::new(), root);
        all
    }

    fn read_file(&mut self, name: Name, path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        let file: File = syn::parse_file(&text).unwrap_or_else(|error| {
            panic!("{}: {error}", path.display());
        });
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let shown = path.strip_prefix(crates).unwrap().to_owned();
        self.read_module(name, path, &shown, &file.items);
    }

    fn read_module(&mut self, name: Name, path: &Path, shown: &Path, items: &[Item]) {
        self.files.insert(name.clone(), shown.to_owned());
        let mut paths = Paths::default();
        for item in items {
            match item {
                Item::Mod(module) if is_for_tests(&module.attrs) => {}
                Item::Mod(module) => {
                    let mut inner = name.clone();
                    inner.push(module.ident.to_string());
                    match &module.content {
                        Some((_, items)) => self.read_module(inner, path, shown, items),
                        None => self.read_file(inner, &file_of(module, path)),
                    }
                }
                item => paths.visit_item(item),
            }
        }
        self.paths
            .extend(paths.0.into_iter().map(|path| (name.clone(), path)));
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (module, path) in &self.paths {
            let from = &self.files[module];
            if let Some(to) = self.file_of(module, path).filter(|to| to != from) {
                imports.entry(from.clone()).or_default().insert(to);
            }
        }
        imports
    }

    /// Returns the file that a path in a module refers to; `None` if the path is in another crate,
    /// or begins with an imported name, because the import itself is counted.
    fn file_of(&self, module: &Name, path: &[String]) -> Option<PathBuf> {
        let mut at = module.clone();
        let mut words = path;
        match words.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
            }
            child => {
                at.push(child.to_owned());
                if !self.files.contains_key(&at) {
                    return None;
                }
            }
        }
        words = &words[1..];
        while let Some((word, rest)) = words.split_first() {
            if word == "super" {
                at.pop();
            } else {
                at.push(word.clone());
                if !self.files.contains_key(&at) {
                    at.pop();
                    break;
                }
            }
            words = rest;
        }
        self.files.get(&at).cloned()
    }
}

/// Returns the file of a module that is declared in the file `parent`.
fn file_of(module: &ItemMod, parent: &Path) -> PathBuf {
    let name = module.ident.to_string();
    let stem = parent.file_stem().unwrap();
    let folder = match stem.to_str().unwrap() {
        "mod" | "lib" | "main" => parent.parent().unwrap().to_owned(),
        _ => parent.with_extension(""),
    };
    let beside = folder.join(format!("{name}.rs"));
    match beside.is_file() {
        true => beside,
        false => folder.join(name).join("mod.rs"),
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|condition| condition == "test")
    })
}

/// Collects every path in an item.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Paths {
    fn add_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            if name != "self" || path.is_empty() {
                path.push(name.to_string());
            }
            path
        };
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree, &with(&path.ident)),
            UseTree::Name(name) => self.0.push(with(&name.ident)),
            UseTree::Rename(name) => self.0.push(with(&name.ident)),
            UseTree::Glob(_) => self.0.push(before.to_vec()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(tree, before);
                }
            }
        }
    }

    /// Adds a path that is not an import. A single word is not a path to a module, but may be the
    /// name of a variable or type.
    fn add(&mut self, path: Vec<String>) {
        if path.len() > 1 {
            self.0.push(path);
        }
    }

    /// Adds the paths in the arguments of a macro, which are not parsed: words with `::` between
    /// them.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.add(std::mem::take(&mut path));
                    }
                    path.push(word.to_string());
                    colons = 0;
                }
                other => {
                    self.add(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add(path);
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words = path.segments.iter().map(|word| word.ident.to_string());
        self.add(words.collect());
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.add_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }
}
