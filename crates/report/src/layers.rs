//! The layers of diagrams of single requests.
//!
//! A load on devices has reads, writes and little else, so its diagrams always have the same four
//! layers. On files each operation has times of its own, and a load has a few of the many there
//! are. So there the operations that occurred are the layers, most frequent first. A reader can
//! tell a dozen colours apart, not twenty: the least frequent share one, and the legend names them.

use std::cmp::Reverse;

use ioecho_stats::picture::Class;

use crate::Ink;

/// Classes of requests that are drawn as one, under a name and in a colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) ink: Ink,
    pub(crate) classes: Vec<Class>,
}

impl Layer {
    fn of(name: &str, ink: Ink, class: Class) -> Self {
        Self { name: name.to_owned(), ink, classes: vec![class] }
    }

    /// Whether these are the layers of a load on files.
    pub(crate) fn are_of_files(layers: &[Self]) -> bool {
        let mut classes = layers.iter().flat_map(|layer| &layer.classes);
        classes.any(|class| matches!(class, Class::OfFiles(_)))
    }
}

/// The layers of a load of which so many requests are of each class.
pub(crate) fn layers(count: impl Fn(Class) -> u64) -> Vec<Layer> {
    let mut there: Vec<(Class, u64)> = Class::ALL.map(|class| (class, count(class))).into();
    there.retain(|(_, count)| *count > 0);
    if !there.iter().any(|(class, _)| matches!(class, Class::OfFiles(_))) {
        return Class::DEVICES.map(|class| Layer::of(class.name(), ink(class), class)).into();
    }
    there.sort_by_key(|(_, count)| Reverse(*count));
    let mut layers = Vec::new();
    let mut others = Vec::new();
    let mut inks = (0..Ink::OPERATIONS).map(Ink::Operation);
    for (class, _) in there {
        let ink = match class {
            Class::OfFiles(_) => inks.next(),
            Class::Other => None,
            class => Some(ink(class)),
        };
        match ink {
            Some(ink) => layers.push(Layer::of(word(class), ink, class)),
            None => others.push(class),
        }
    }
    if !others.is_empty() {
        let words: Vec<&str> = others.iter().map(|class| word(*class)).collect();
        let name = format!("other ({})", words.join(", "));
        layers.push(Layer { name, ink: Ink::Other, classes: others });
    }
    layers
}

/// The colour of a class that has the same one everywhere.
const fn ink(class: Class) -> Ink {
    match class {
        Class::Read => Ink::Read,
        Class::Write => Ink::Write,
        Class::PushedBack => Ink::PushedBack,
        Class::Other | Class::OfFiles(_) => Ink::Other,
    }
}

/// The name of a class among operations on files, where each is in the singular.
const fn word(class: Class) -> &'static str {
    match class {
        Class::Read => "read",
        Class::Write => "write",
        Class::Other => "flush, discard",
        class => class.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Op;

    #[test]
    fn a_load_on_devices_has_the_same_layers_whatever_it_does() {
        for busy in [None, Some(Class::Write), Some(Class::PushedBack)] {
            let layers = layers(|class| u64::from(Some(class) == busy));
            let names: Vec<&str> = layers.iter().map(|layer| &*layer.name).collect();
            assert_eq!(names, ["reads", "writes", "flush, discard, other", "pushed back"]);
            assert!(!Layer::are_of_files(&layers));
        }
    }

    #[test]
    fn operations_on_files_that_occurred_are_layers_most_frequent_first() {
        let layers = layers(|class| match class {
            Class::OfFiles(Op::Getattr) => 50,
            Class::Read => 20,
            Class::OfFiles(Op::Create) => 30,
            Class::PushedBack => 1,
            _ => 0,
        });
        let told: Vec<(&str, Ink)> = layers.iter().map(|layer| (&*layer.name, layer.ink)).collect();
        assert_eq!(
            told,
            [
                ("getattr", Ink::Operation(0)),
                ("create", Ink::Operation(1)),
                ("read", Ink::Read),
                ("pushed back", Ink::PushedBack),
            ]
        );
        assert!(Layer::are_of_files(&layers));
    }

    #[test]
    fn beyond_the_colours_the_least_frequent_are_one_layer_that_names_them() {
        let layers = layers(|class| 100 - class.index() as u64);
        let classes: usize = layers.iter().map(|layer| layer.classes.len()).sum();
        assert_eq!(classes, Class::COUNT, "each class is in one layer");
        let last = layers.last().unwrap();
        assert_eq!(last.ink, Ink::Other);
        assert!(last.name.starts_with("other (flush, discard, access, copy, "), "{}", last.name);
        assert!(last.name.ends_with(", readdir)"), "{}", last.name);
        let inks: Vec<Ink> = layers.iter().map(|layer| layer.ink).collect();
        assert!(inks.iter().enumerate().all(|(at, ink)| !inks[..at].contains(ink)), "{inks:?}");
    }
}
