"""Lists what safe code of other crates can use although no page documents it. For ci/hidden.sh.

usage: hidden.py FILE.json...   rustdoc's JSON, made with --document-hidden-items --document-private-items

Prints, one in a line and sorted: safe functions, statics, constants, fields, macros, and traits that are safe to
implement. An item counts if all its paths are below `doc(hidden)`, or if it has none, and values of its type, or a
bound, lead to it. A function does not count if it takes a value of a type of which safe code can make none.

`value TYPE`: safe code can make values of a type without a documented path, by a function or a trait, those of other
crates included (`Default`, `From`), and pass them to a function.
"""

import json
import sys

# Traits that derives and the like implement: what they do is their documentation.
COMMON = {"Debug", "Clone", "Copy", "Default", "PartialEq", "Eq", "Hash", "PartialOrd", "Ord", "Send", "Sync", "Drop",
          "Unpin", "UnwindSafe", "RefUnwindSafe", "Freeze", "StructuralPartialEq"}


class Crate:
    def __init__(self, file):
        with open(file, encoding="utf-8") as source:
            data = json.load(source)
        self.index = {int(id): item for id, item in data["index"].items()}
        self.paths = {int(id): summary for id, summary in data["paths"].items()}
        self.open = {}  # id -> path, of the items that have a documented path
        self.hidden = {}  # the same, of those that have hidden paths only, or none
        self.lines = set()
        root = data["root"]
        self.module(root, self.index[root]["name"], False, self.open)
        self.module(root, self.index[root]["name"], True, self.hidden)
        self.named = set(self.open) | set(self.hidden)
        self.unnamed()
        self.made = set()
        self.make()
        for id, path in self.hidden.items():
            if id not in self.open:
                self.members(id, path, True)
        for id, path in self.open.items():
            self.members(id, path, False)

    @staticmethod
    def is_hidden(item):
        return any("doc(hidden)" in json.dumps(attr) for attr in item["attrs"])

    @staticmethod
    def kind(item):
        return next(iter(item["inner"].items()))

    def module(self, id, path, with_hidden, found):
        """Stores the paths of all items below a module, those below hidden ones only on demand."""
        for child in self.kind(self.index[id])[1]["items"]:
            item = self.index.get(child)
            if item is None or (self.is_hidden(item) and not with_hidden):
                continue
            kind, inner = self.kind(item)
            if item["visibility"] != "public" and kind != "macro":
                continue
            if kind == "use":
                target = self.index.get(inner["id"])
                if target is None or (self.is_hidden(target) and not with_hidden):
                    continue
                if inner["is_glob"]:
                    self.module(inner["id"], path, with_hidden, found)
                    continue
                child, item, name = inner["id"], target, inner["name"]
            else:
                name = item["name"]
            if child in found:
                continue
            found[child] = f"{path}::{name}"
            if self.kind(item)[0] == "module":
                self.module(child, found[child], with_hidden, found)

    def unnamed(self):
        """Adds what signatures, fields and bounds of these items mention, and what that mentions."""
        queue = list({**self.hidden, **self.open})
        while queue:
            item = self.index.get(queue.pop())
            if item is None:
                continue
            for id in self.mentioned(item):
                if self.usable(id, False) and id not in self.open and id not in self.hidden:
                    self.hidden[id] = "::".join(self.paths[id]["path"]) if id in self.paths else self.index[id]["name"]
                    queue.append(id)

    def callable(self, item):
        """The members that other crates can use."""
        kind, inner = self.kind(item)
        if kind == "struct":
            fields = inner["kind"]
            fields = fields["plain"]["fields"] if "plain" in fields else fields["tuple"] if "tuple" in fields else []
            yield from (id for id in fields if id is not None)
        if kind == "trait":
            yield from inner["items"]
        for id in inner.get("impls", []) if isinstance(inner, dict) else []:
            block = self.kind(self.index[id])[1] if id in self.index else None
            if block is None or block["is_synthetic"] or block["blanket_impl"]:
                continue
            # Functions of this crate's traits are those of the trait.
            trait = block["trait"]
            if trait is None or (trait["id"] not in self.index and trait["path"].split("::")[-1] not in COMMON):
                yield from block["items"]

    def usable(self, id, in_trait):
        return id in self.index and (in_trait or self.index[id]["visibility"] in ("public", "default"))

    def types(self, item):
        """The types of the values that a caller gets. Of a function: what it returns, and what its closures take."""
        kind, inner = self.kind(item)
        if kind == "function":
            closures, parts = [], [inner["sig"]["inputs"], inner["generics"]]
            while parts:
                part = parts.pop()
                if isinstance(part, dict):
                    closures.extend(part[key] for key in ("parenthesized", "function_pointer") if part.get(key))
                    parts.extend(part.values())
                elif isinstance(part, list):
                    parts.extend(part)
            return [inner["sig"]["output"], closures]
        return inner if kind in ("static", "constant", "type_alias", "assoc_const", "assoc_type", "struct_field") else []

    def mentioned(self, item):
        """What values of these types, or bounds, lead to."""
        kind, inner = self.kind(item)
        parts = [self.types(item)]
        if kind == "trait":
            parts.append(inner["bounds"])
        for id in self.callable(item):
            if self.usable(id, kind == "trait"):
                parts.append(self.types(self.index[id]))
        while parts:
            part = parts.pop()
            if isinstance(part, dict):
                for key in ("resolved_path", "trait"):
                    if isinstance(part.get(key), dict) and "id" in part[key]:
                        yield part[key]["id"]
                parts.extend(part.values())
            elif isinstance(part, list):
                parts.extend(part)

    def functions(self):
        """What safe code can call: each function with the type that is `Self`, and whether it only makes values."""
        for id, item in self.index.items():
            kind, inner = self.kind(item)
            reachable = id in self.open or id in self.hidden
            if kind == "function" and reachable:
                yield item, None, False
            elif kind == "trait" and reachable:
                yield from ((self.index[child], None, False) for child in inner["items"] if child in self.index)
            # The compiler infers a type without a path, for a trait that has one.
            for block in inner.get("impls", []) if kind in ("struct", "enum", "union") else []:
                block = self.kind(self.index[block])[1] if block in self.index else None
                if block is None or block["is_synthetic"] or block["blanket_impl"] or block["is_negative"]:
                    continue
                trait = block["trait"]
                if trait is None and not reachable or trait is not None and trait["id"] in self.index:
                    continue
                common = trait is not None and trait["path"].split("::")[-1] in COMMON
                for child in block["items"]:
                    if self.usable(child, trait is not None):
                        yield self.index[child], id, common or not reachable

    def local(self, parts, own):
        """The types without a documented path in a part of a signature, in which `Self` is `own`."""
        found, parts = set(), [parts]
        while parts:
            part = parts.pop()
            if isinstance(part, dict):
                path = part.get("resolved_path")
                if isinstance(path, dict) and path["id"] in self.index and path["id"] not in self.open:
                    found.add(path["id"])
                if part.get("generic") == "Self" and own is not None and own not in self.open:
                    found.add(own)
                parts.extend(part.values())
            elif isinstance(part, list):
                parts.extend(part)
        return found

    def takes(self, item, own):
        """The types of which a caller of the function needs values. Not what its closures get."""
        inputs = [type for _, type in self.kind(item)[1]["sig"]["inputs"]]
        return self.local([part for part in inputs if "function_pointer" not in part and "impl_trait" not in part], own)

    def make(self):
        """Finds the types without a documented path of which safe code can make values."""
        for id in {**self.open, **self.hidden}:
            item = self.index.get(id)
            if item is not None and self.kind(item)[0] in ("static", "constant"):
                self.made |= self.local(self.types(item), None)
            if item is not None and id in self.named:
                kind, inner = self.kind(item)
                if kind == "enum" and inner["variants"] or kind == "struct" and self.is_literal(inner["kind"]):
                    self.made |= {id} - set(self.open)
        functions = [row for row in self.functions() if self.kind(row[0])[0] == "function"]
        functions = [row for row in functions if not self.kind(row[0])[1]["header"]["is_unsafe"]]
        before = None
        while before != self.made:
            before = set(self.made)
            for item, own, _ in functions:
                if self.takes(item, own) <= self.made:
                    self.made |= self.local(self.types(item), own)
            for id in before | set(self.open):
                item = self.index.get(id)
                if item is not None and self.kind(item)[0] == "struct":
                    for field in self.callable(item):
                        if self.kind(self.index[field])[0] == "struct_field" and self.usable(field, False):
                            self.made |= self.local(self.types(self.index[field]), None)
        for item, own, only_makes in functions:
            takes = self.takes(item, own)
            if not only_makes and takes <= self.made:
                self.lines |= {f"value {self.name(id)}" for id in takes}

    def is_literal(self, kind):
        """Code that names the type can make one."""
        fields = [] if kind == "unit" else kind["plain"]["fields"] if "plain" in kind else kind["tuple"]
        return all(id in self.index and self.index[id]["visibility"] == "public" for id in fields)

    def name(self, id):
        return "::".join(self.paths[id]["path"]) if id in self.paths else self.index[id]["name"]

    def members(self, id, path, hidden):
        """Lists an item and its members."""
        item = self.index.get(id)
        if item is None:
            return
        kind, inner = self.kind(item)
        if hidden:
            self.item(item, path, None)
            if kind == "trait" and id in self.named and not inner["is_unsafe"] and not inner["is_auto"]:
                self.lines.add(f"trait {path}")
        for member in self.callable(item):
            if self.usable(member, kind == "trait"):
                child = self.index[member]
                if hidden or self.is_hidden(child):
                    self.item(child, f"{path}::{child['name']}", None if kind == "trait" else id)

    def item(self, item, path, own):
        kind, inner = self.kind(item)
        if kind == "function" and not inner["header"]["is_unsafe"] and self.takes(item, own) <= self.made:
            self.lines.add(f"fn {path}")
        elif kind in ("static", "constant", "macro"):
            self.lines.add(f"{kind} {path}")
        elif kind == "assoc_const":
            self.lines.add(f"constant {path}")
        elif kind == "struct_field" and item["visibility"] == "public":
            self.lines.add(f"field {path}")


print(*sorted(set().union(*(Crate(file).lines for file in sys.argv[1:]))), sep="\n")
