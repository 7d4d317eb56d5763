//! Keys that a JSON object has more than once: a parser keeps the last one and says nothing.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Returns what is to be said of keys that occur twice in the same object, with where that is. Text that is no JSON has none.
pub(crate) fn repeated_keys(text: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let _ = Part { place: String::new(), found: &mut found }.deserialize(&mut reader);
    found.into_iter().collect()
}

/// A value of the document, at its place in it.
struct Part<'a> {
    place: String,
    found: &'a mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let place = match self.place.as_str() {
                "" => key.clone(),
                place => format!("{place}.{key}"),
            };
            if !keys.insert(key) {
                self.found.insert(format!("{place}: the key occurs twice"));
            }
            map.next_value_seed(Part { place, found: &mut *self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items
            .next_element_seed(Part {
                place: format!("{}[{index}]", self.place),
                found: &mut *self.found,
            })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
