/** Text of others for people: what would turn a line around, or be invisible, is spelt out. */
export { spellUnsafe as printable } from '@holdfast/protocol';
