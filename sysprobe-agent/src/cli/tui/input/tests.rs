//! Keys and what they mean.

use super::*;

fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(code, modifiers)
}

#[test]
fn shift_belongs_to_the_character_and_other_modifiers_do_not() {
    let command = |code, modifiers| command(&[HELP, QUIT], key(code, modifiers));
    assert_eq!(command(Char('?'), KeyModifiers::SHIFT), Some(Command::Help));
    assert_eq!(command(Char('q'), KeyModifiers::ALT), None);
    assert_eq!(command(Char('c'), KeyModifiers::CONTROL), Some(Command::Quit));
    assert_eq!(command(Char('c'), KeyModifiers::NONE), None);
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
