/** A variable that switches something on. */
import { ConfigError } from '../errors.ts';

const SWITCH_VALUES: Readonly<Record<string, boolean>> = { '1': true, true: true, '0': false, false: false };

type Environment = Readonly<Record<string, string | undefined>>;

/** False if it is not set. Throws ConfigError. */
export function parseSwitch(variable: string, env: Environment): boolean {
  const text = env[variable] || '0';
  const value = Object.hasOwn(SWITCH_VALUES, text) ? SWITCH_VALUES[text] : undefined;
  if (value !== undefined) return value;
  throw new ConfigError(`${variable} ${JSON.stringify(text)} must be 1 or 0`);
}
