/** The `If` header of WebDAV: lists of lock tokens and ETags, of which one must hold whole. */
import { DoorError } from '../door.ts';
import { type DavPlace, parsePlace } from './places.ts';

interface Condition {
  readonly isNot: boolean;
  readonly token?: string;
  readonly etag?: string;
}

interface ConditionList {
  /** undefined: what the request is for */
  readonly place: DavPlace | undefined;
  readonly conditions: readonly Condition[];
}

/** Throws DoorError 400. */
export function parseIf(header: string): readonly ConditionList[] {
  const lists: ConditionList[] = [];
  let place: DavPlace | undefined;
  let rest = header.trim();
  while (rest !== '') {
    const [tag, target] = /^<([^>]*)>\s*(?=\()/.exec(rest) ?? [];
    if (tag !== undefined && target !== undefined) {
      place = parsePlace(target);
      rest = rest.slice(tag.length);
    }
    const [all, inner] = /^\(((?:[^()<>[\]]|<[^>]*>|\[(?:W\/)?"[^"]*"\])*)\)\s*/.exec(rest) ?? [];
    if (all === undefined || inner === undefined) throw wrong();
    lists.push({ place, conditions: parseConditions(inner) });
    rest = rest.slice(all.length);
  }
  if (lists.length === 0) throw wrong();
  return lists;
}

function parseConditions(text: string): readonly Condition[] {
  const conditions: Condition[] = [];
  let rest = text.trim();
  while (rest !== '') {
    const [all, not, token, etag] = /^(Not\s*)?(?:<([^>]*)>|\[([^\]]*)\])\s*/i.exec(rest) ?? [];
    if (all === undefined) throw wrong();
    conditions.push({
      isNot: not !== undefined,
      ...(token === undefined ? { etag: etag ?? '' } : { token }),
    });
    rest = rest.slice(all.length);
  }
  if (conditions.length === 0) throw wrong();
  return conditions;
}

function wrong(): DoorError {
  return new DoorError(400, 'the If header cannot be read');
}

export function tokensOf(lists: readonly ConditionList[]): ReadonlySet<string> {
  const given = lists.flatMap(({ conditions }) => conditions).filter(({ isNot }) => !isNot);
  return new Set(given.flatMap(({ token }) => token ?? []));
}
