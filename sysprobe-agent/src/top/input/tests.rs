//! Keys and what they mean.

use super::*;

fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(code, modifiers)
}

#[test]
fn no_key_has_two_meanings() {
    let mut codes: Vec<_> = BINDINGS.iter().flat_map(|binding| binding.codes).collect();
    let count = codes.len();
    codes.sort_by_key(|code| format!("{code:?}"));
    codes.dedup();
    assert_eq!(codes.len(), count);
}

#[test]
fn shift_belongs_to_the_character_and_other_modifiers_do_not() {
    assert_eq!(command(key(Char('S'), KeyModifiers::SHIFT)), Some(Command::PreviousSort));
    assert_eq!(command(key(Char('q'), KeyModifiers::ALT)), None);
    assert_eq!(command(key(Char('c'), KeyModifiers::CONTROL)), Some(Command::Quit));
    assert_eq!(command(key(Char('c'), KeyModifiers::NONE)), None);
    assert_eq!(typed(key(Char('ß'), KeyModifiers::NONE)), Some('ß'));
    assert_eq!(typed(key(Char('u'), KeyModifiers::CONTROL)), None);
    assert_eq!(typed(key(KeyCode::Enter, KeyModifiers::NONE)), None);
}

#[test]
fn releases_and_the_mouse_are_not_for_us() {
    let release = KeyEvent::new_with_kind(Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
    assert!(event(&Terminal::Key(release)).is_none());
    assert!(event(&Terminal::FocusGained).is_none());
    assert!(matches!(event(&Terminal::Resize(40, 10)), Some(Event::Resize { width: 40, height: 10 })));
}
