//! The file of a campaign that a tree becomes.
//!
//! A leaf's settings are those of the layers on its path. Where a file of the tree decides by other
//! variables, no layer can say the same; such leaves get a rule of their own. So whatever the tree
//! does, each leaf has the settings that it has there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Leaf;

/// Settings as they are written in TOML.
type Settings = BTreeMap<String, String>;

/// The text of a campaign of these leaves. `keys_of` tells which keys a part of a path decides.
pub fn written(
    name: &str,
    leaves: &[Leaf],
    keys_of: &BTreeMap<String, BTreeSet<String>>,
) -> String {
    let common = common(leaves);
    let layers = layers(leaves, &common, keys_of);
    let mut text = format!("name = {}\norder = \"written\"\n", quoted(name));
    text.push_str("paths = [\n");
    for leaf in leaves {
        let _ = writeln!(text, "  {},", quoted(&leaf.path));
    }
    text.push_str("]\n\n[devices]\n");
    let names = leaves.iter().filter_map(|leaf| leaf.settings.get("device"));
    for device in names.collect::<BTreeSet<_>>() {
        // The part behind the last ':' is the device on its host.
        let bare = device.trim_matches('"');
        let path = bare.rsplit(':').next().unwrap_or(bare);
        let _ = writeln!(text, "{device} = {}", quoted(path));
    }
    text.push_str("\n[replay]\n");
    write_all(&mut text, &common);
    for (name, settings) in &layers {
        let _ = writeln!(text, "\n[layers.{}]", quoted(name));
        write_all(&mut text, settings);
    }
    for leaf in leaves {
        let of_layers = layered(&leaf.path, &common, &layers);
        let differs = |(key, value): &(&String, &String)| of_layers.get(*key) != Some(*value);
        let own: Vec<String> = leaf
            .settings
            .iter()
            .filter(differs)
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        if !own.is_empty() {
            let when = format!("path = \"{}\"", leaf.path);
            let set = own.join(", ");
            let _ = write!(text, "\n[[rule]]\nwhen = '{when}'\nset = {{ {set} }}\n");
        }
    }
    text
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

fn write_all(text: &mut String, settings: &Settings) {
    for (key, value) in settings {
        let _ = writeln!(text, "{key} = {value}");
    }
}

/// Settings that all leaves have.
fn common(leaves: &[Leaf]) -> Settings {
    let Some(first) = leaves.first() else { return Settings::new() };
    let mut common = first.settings.clone();
    common.retain(|key, value| leaves.iter().all(|leaf| leaf.settings.get(key) == Some(value)));
    common
}

/// The settings of each part of a path: those that it decides, and that all leaves have for which
/// it decides them.
fn layers(
    leaves: &[Leaf],
    common: &Settings,
    keys_of: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<String, Settings> {
    let mut values: BTreeMap<(&str, &str), BTreeSet<Option<&String>>> = BTreeMap::new();
    for leaf in leaves {
        for (key, keys_value) in &leaf.settings {
            let decides = |part: &&str| keys_of.get(*part).is_some_and(|keys| keys.contains(key));
            // The last part that decides it.
            if let Some(part) = leaf.path.split('/').rev().find(decides) {
                values.entry((part, key)).or_default().insert(Some(keys_value));
            }
        }
    }
    let mut layers: BTreeMap<String, Settings> = BTreeMap::new();
    for ((part, key), values) in values {
        if let (1, Some(Some(value)), false) =
            (values.len(), values.first(), common.contains_key(key))
        {
            let layer = layers.entry(part.to_owned()).or_default();
            layer.insert(key.to_owned(), (*value).clone());
        }
    }
    layers
}

fn layered(path: &str, common: &Settings, layers: &BTreeMap<String, Settings>) -> Settings {
    let mut settings = common.clone();
    for layer in path.split('/').filter_map(|part| layers.get(part)) {
        settings.extend(layer.clone());
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::plan;

    #[test]
    fn each_leaf_has_its_settings_whatever_decides_them() {
        let leaf = |path: &str, speedup: &str, most: &str| {
            let settings = [
                ("device", "\"h:/dev/x\""),
                ("trace", "\"t\""),
                ("speedup", speedup),
                ("in-flight-max", most),
            ];
            let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            Leaf { path: path.to_owned(), settings }
        };
        let leaves = [
            leaf("fast/deep", "9", "64"),
            leaf("fast/flat", "9", "1"),
            leaf("slow/deep", "2", "64"),
            // Here `flat` halves what `slow` says.
            leaf("slow/flat", "1", "1"),
        ];
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let keys_of = [
            ("fast".to_owned(), keys(&["speedup"])),
            ("slow".to_owned(), keys(&["speedup"])),
            ("deep".to_owned(), keys(&["in-flight-max"])),
            ("flat".to_owned(), keys(&["in-flight-max", "speedup"])),
        ];
        let text = written("x", &leaves, &keys_of.into());
        let plan = plan(&text);
        for (cell, leaf) in plan.cells.iter().zip(&leaves) {
            for key in ["speedup", "in-flight-max"] {
                assert_eq!(cell.setting(key).as_ref(), leaf.settings.get(key), "{text}");
            }
        }
        assert_eq!(text.matches("[[rule]]").count(), 1, "{text}");
    }
}
