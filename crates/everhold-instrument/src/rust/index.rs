//! The items of a package: types with their fields, functions with their parameters, statics.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Attribute, Fields, FnArg, ImplItem, Item, Pat, ReturnType, Signature, TraitItem, Type};

use crate::facts::{Facts, Function, Kind, Var, VarId};

use super::network;

/// A type as far as the source tells it: the one name in it that matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ty {
    /// A type of the package, a connection, or the outermost name.
    pub(super) core: Option<String>,
    /// Whether copies share the value, as those of an `Arc` or of the sender of a channel do.
    pub(super) shared: bool,
}

/// The parameters and the result of a function.
#[derive(Debug)]
pub(super) struct Callable {
    pub(super) params: Vec<VarId>,
    pub(super) types: Vec<Ty>,
    pub(super) result: VarId,
    pub(super) result_type: Ty,
    pub(super) owner: Option<String>,
    pub(super) name: String,
}

/// A body that is to be analysed.
#[derive(Debug)]
pub(super) struct Body<'a> {
    pub(super) function: usize,
    pub(super) file: usize,
    pub(super) signature: &'a Signature,
    pub(super) block: &'a syn::Block,
    /// The type or trait of which it is a method.
    pub(super) owner: Option<String>,
}

/// A function that begins a run.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) file: usize,
    pub(super) name: String,
    pub(super) block: &'a syn::Block,
}

/// All items of a package, by their names.
#[derive(Debug, Default)]
pub(super) struct Index<'a> {
    pub(super) fields: BTreeMap<String, BTreeMap<String, (VarId, Ty)>>,
    pub(super) types: BTreeSet<String>,
    pub(super) traits: BTreeSet<String>,
    pub(super) callables: Vec<Callable>,
    by_name: BTreeMap<String, Vec<usize>>,
    pub(super) globals: BTreeMap<String, (VarId, Ty)>,
    pub(super) bodies: Vec<Body<'a>>,
    pub(super) starts: Vec<Start<'a>>,
}

impl<'a> Index<'a> {
    /// Collects the names of types, which must be known before types can be understood.
    pub(super) fn names(&mut self, items: &'a [Item]) {
        for item in items {
            match item {
                Item::Struct(it) => drop(self.types.insert(it.ident.to_string())),
                Item::Enum(it) => drop(self.types.insert(it.ident.to_string())),
                Item::Union(it) => drop(self.types.insert(it.ident.to_string())),
                Item::Trait(it) => drop(self.traits.insert(it.ident.to_string())),
                Item::Mod(it) if !is_test_module(&it.attrs) => {
                    if let Some((_, items)) = &it.content {
                        self.names(items);
                    }
                }
                _ => {}
            }
        }
    }

    /// Collects the items of a file or module.
    pub(super) fn items(&mut self, items: &'a [Item], file: usize, facts: &mut Facts) {
        for item in items {
            match item {
                Item::Struct(it) => self.fields(&it.ident.to_string(), &it.fields, file, facts),
                Item::Enum(it) => {
                    for variant in &it.variants {
                        let name = format!("{}::{}", it.ident, variant.ident);
                        self.fields(&name, &variant.fields, file, facts);
                    }
                }
                Item::Static(it) => self.global(&it.ident, &it.ty, file, facts),
                Item::Fn(it) => self.function(&it.sig, &it.block, &it.attrs, None, file, facts),
                Item::Impl(it) => self.implementation(it, file, facts),
                Item::Trait(it) => self.methods_of_trait(it, file, facts),
                Item::Mod(it) => {
                    if let Some((_, items)) = &it.content {
                        match is_test_module(&it.attrs) {
                            true => self.tests(items, file),
                            false => self.items(items, file, facts),
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Collects only the tests of a file or module.
    pub(super) fn tests(&mut self, items: &'a [Item], file: usize) {
        let mut finder = Tests { found: Vec::new() };
        items.iter().for_each(|item| finder.visit_item(item));
        let starts = finder.found.into_iter();
        self.starts.extend(starts.map(|(name, block)| Start { file, name, block }));
    }

    fn implementation(&mut self, it: &'a syn::ItemImpl, file: usize, facts: &mut Facts) {
        if is_test_module(&it.attrs) {
            return;
        }
        let owner = self.ty(&it.self_ty).core;
        for item in &it.items {
            if let ImplItem::Fn(method) = item {
                self.function(
                    &method.sig,
                    &method.block,
                    &method.attrs,
                    owner.as_ref(),
                    file,
                    facts,
                );
            }
        }
    }

    fn methods_of_trait(&mut self, it: &'a syn::ItemTrait, file: usize, facts: &mut Facts) {
        let owner = it.ident.to_string();
        for item in &it.items {
            if let TraitItem::Fn(method) = item
                && let Some(block) = &method.default
            {
                self.function(&method.sig, block, &method.attrs, Some(&owner), file, facts);
            }
        }
    }

    fn fields(&mut self, of: &str, fields: &Fields, file: usize, facts: &mut Facts) {
        let mut found = BTreeMap::new();
        for (at, field) in fields.iter().enumerate() {
            let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
            let line =
                super::line(field.ident.as_ref().map_or_else(
                    || syn::spanned::Spanned::span(&field.ty),
                    proc_macro2::Ident::span,
                ));
            let ty = self.ty(&field.ty);
            let is_handle = ty.core.as_deref().is_some_and(|core| self.is_handle(core));
            let owner = of.to_owned();
            let (name, kind, is_plain) = (name.clone(), Kind::Field, self.is_plain(&ty));
            facts.vars.push(Var {
                name: name.clone(),
                kind,
                owner,
                file,
                line,
                is_handle,
                is_plain,
            });
            found.insert(name, (facts.vars.len() - 1, ty));
        }
        self.fields.insert(of.to_owned(), found);
    }

    fn global(&mut self, name: &syn::Ident, ty: &Type, file: usize, facts: &mut Facts) {
        let (line, owner) = (super::line(name.span()), String::new());
        let (name, ty) = (name.to_string(), self.ty(ty));
        let is_handle = ty.core.as_deref().is_some_and(|core| self.is_handle(core));
        facts.vars.push(Var {
            name: name.clone(),
            kind: Kind::Global,
            owner,
            file,
            line,
            is_handle,
            is_plain: self.is_plain(&ty),
        });
        self.globals.insert(name, (facts.vars.len() - 1, ty));
    }

    fn function(
        &mut self,
        signature: &'a Signature,
        block: &'a syn::Block,
        attributes: &[Attribute],
        owner: Option<&String>,
        file: usize,
        facts: &mut Facts,
    ) {
        let name = signature.ident.to_string();
        if is_test(attributes) {
            self.starts.push(Start { file, name, block });
            return;
        }
        if is_test_module(attributes) || signature.constness.is_some() {
            return;
        }
        if name == "main" && owner.is_none() {
            self.starts.push(Start { file, name: name.clone(), block });
        }
        let full = owner.map_or_else(|| name.clone(), |owner| format!("{owner}::{name}"));
        let (function, owner) = (facts.functions.len(), owner.cloned());
        facts.functions.push(Function { name: full.clone(), owner: owner.clone() });
        let callable = self.callable(signature, &full, owner.clone(), file, facts);
        self.by_name.entry(name).or_default().push(function);
        self.callables.push(callable);
        self.bodies.push(Body { function, file, signature, block, owner });
    }

    fn callable(
        &self,
        signature: &Signature,
        full: &str,
        owner: Option<String>,
        file: usize,
        facts: &mut Facts,
    ) -> Callable {
        let (mut params, mut types) = (Vec::new(), Vec::new());
        for input in &signature.inputs {
            let FnArg::Typed(typed) = input else { continue };
            let ty = self.ty(&typed.ty);
            // A pattern gets a variable of the analysis, from which its parts are bound.
            let (name, kind) = match &*typed.pat {
                Pat::Ident(ident) => (ident.ident.to_string(), Kind::Param),
                _ => ("pattern".to_owned(), Kind::Call),
            };
            let line = super::line(syn::spanned::Spanned::span(&typed.pat));
            let is_handle = ty.core.as_deref().is_some_and(|core| self.is_handle(core));
            let (owner, is_plain) = (full.to_owned(), self.is_plain(&ty));
            facts.vars.push(Var { name, kind, owner, file, line, is_handle, is_plain });
            params.push(facts.vars.len() - 1);
            types.push(ty);
        }
        let result_type = match &signature.output {
            ReturnType::Default => Ty::default(),
            ReturnType::Type(_, ty) => self.own(self.ty(ty), owner.as_ref()),
        };
        let (name, line) = (signature.ident.to_string(), super::line(signature.ident.span()));
        facts.vars.push(Var {
            name: format!("result of {full}"),
            kind: Kind::Return,
            owner: full.to_owned(),
            file,
            line,
            is_handle: result_type.core.as_deref().is_some_and(|core| self.is_handle(core)),
            is_plain: self.is_plain(&result_type),
        });
        Callable { params, types, result: facts.vars.len() - 1, result_type, owner, name }
    }

    /// Replaces `Self`.
    pub(super) fn own(&self, mut ty: Ty, owner: Option<&String>) -> Ty {
        if ty.core.as_deref() == Some("Self") {
            ty.core = owner.cloned();
        }
        ty
    }

    /// Returns the functions that a call may mean.
    pub(super) fn named(&self, name: &str, owner: Option<&str>) -> Vec<usize> {
        let all = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        all.iter().copied().filter(|at| self.callables[*at].owner.as_deref() == owner).collect()
    }

    /// Returns all methods of this name.
    pub(super) fn methods(&self, name: &str) -> Vec<usize> {
        let all = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        all.iter().copied().filter(|at| self.callables[*at].owner.is_some()).collect()
    }

    /// Returns whether the name is that of a connection, and not of a type of the package.
    pub(super) fn is_handle(&self, name: &str) -> bool {
        match name.strip_prefix("net::") {
            Some(name) => network::is_handle(name),
            None => {
                let is_own = self.types.contains(name) || self.traits.contains(name);
                network::is_handle(name) && !is_own
            }
        }
    }

    /// Returns whether a value of a type is no connection, whatever flows into it.
    pub(super) fn is_plain(&self, ty: &Ty) -> bool {
        let is_plain = |core: &str| self.types.contains(core) || network::is_plain(core);
        ty.core.as_deref().is_some_and(is_plain)
    }

    /// Returns the type as far as it matters.
    pub(super) fn ty(&self, ty: &Type) -> Ty {
        let names = names_in(ty);
        let shared = |name: &String| {
            matches!(name.as_str(), "Arc" | "Rc" | "&mut") || name.ends_with("Sender")
        };
        let own = |name: &&String| {
            self.types.contains(*name) || self.traits.contains(*name) || *name == "Self"
        };
        let handle = names.iter().find(|name| self.is_handle(name));
        let core = names.iter().rfind(own).or(handle).or_else(|| {
            names.iter().find(|name| !network::is_wrapper(name) && !name.starts_with('&'))
        });
        Ty { core: core.cloned(), shared: names.iter().any(shared) }
    }
}

/// Returns the names in a type, from the outside to the inside; `&mut` is one of them.
pub(super) fn names_in(ty: &Type) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'a> Visit<'a> for Names {
        fn visit_path(&mut self, path: &'a syn::Path) {
            if let Some(last) = path.segments.last() {
                // A qualified name cannot be that of a type of the package.
                let is_net =
                    path.segments.len() > 1 && path.segments.iter().any(|s| s.ident == "net");
                self.0.push(format!("{}{}", if is_net { "net::" } else { "" }, last.ident));
            }
            syn::visit::visit_path(self, path);
        }
        fn visit_type_reference(&mut self, it: &'a syn::TypeReference) {
            self.0.push(if it.mutability.is_some() { "&mut" } else { "&" }.to_owned());
            syn::visit::visit_type_reference(self, it);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_type(ty);
    names.0
}

/// The tests in test modules.
struct Tests<'a> {
    found: Vec<(String, &'a syn::Block)>,
}

impl<'a> Visit<'a> for Tests<'a> {
    fn visit_item_fn(&mut self, it: &'a syn::ItemFn) {
        if is_test(&it.attrs) {
            self.found.push((it.sig.ident.to_string(), &it.block));
        }
    }
}

/// Returns whether an attribute makes the function a test: `#[test]`, `#[tokio::test]`.
fn is_test(attributes: &[Attribute]) -> bool {
    let last = |it: &Attribute| it.path().segments.last().map(|last| last.ident.to_string());
    attributes.iter().any(|it| last(it).is_some_and(|name| name == "test" || name == "rstest"))
}

/// Returns whether the item exists in tests only.
fn is_test_module(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("cfg")
            && it.parse_args::<syn::Meta>().is_ok_and(|meta| meta.path().is_ident("test"))
    })
}
