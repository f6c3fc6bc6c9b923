/** Parts of the address of a request, as every gateway reads them. */
import { DoorError } from './door.ts';

/** Throws DoorError 414. */
export function requireShort(target: string): void {
  if (target.length > 16 * 1024) throw new DoorError(414, 'the address is too long');
}

/** `refusal`: of a part that nothing here can be named by. Throws DoorError 400. */
export function decodePart(part: string, refusal: string): string {
  let text: string;
  try {
    text = decodeURIComponent(part);
  } catch {
    throw new DoorError(400, 'the address is no UTF-8');
  }
  if (text === '' || text === '.' || text === '..' || text.includes('/') || !canShow(text))
    throw new DoorError(400, refusal);
  return text;
}

/** A name with control characters cannot be asked for, so it is not listed. */
export function canShow(name: string): boolean {
  return !/\p{Cc}/u.test(name);
}
