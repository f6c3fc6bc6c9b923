/** The XML parser: what was written is read again, anything else is an error, never a hang. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { findText, parseXml, type XmlElement, XmlInvalid } from './xml.ts';
import { formatDeleteBatch, parseBatchOutcome, parseErrorCode, parseKeyPage } from './xml-answers.ts';

const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_.:-]{0,20}$/);
const text = fc
  .string({ unit: 'grapheme' })
  .filter((each) => !/[\uD800-\uDFFF]/.test(each) || each.isWellFormed());
const { tree } = fc.letrec<{ tree: XmlElement }>((tie) => ({
  tree: fc.record({
    name,
    text,
    children: fc.oneof(
      { maxDepth: 4, depthIdentifier: 'xml' },
      fc.constant([]),
      fc.array(tie('tree'), { maxLength: 3 }),
    ),
  }),
}));

function write({ name: tag, text: content, children }: XmlElement, seed: number): string {
  const escaped = content.replace(/[<>&"']/g, (character) =>
    seed % 2 === 0 ? `&#x${character.charCodeAt(0).toString(16)};` : (NAMED[character] as string),
  );
  const inside = escaped + children.map((child) => write(child, seed + 1)).join('');
  const attributes = seed % 3 === 0 ? ' xmlns="http://x/y" a:b=\'"\'' : '';
  return inside === '' && seed % 2 === 0
    ? `<${tag}${attributes} />`
    : `<${tag}${attributes}>${inside}</${tag} >`;
}

const NAMED: Record<string, string> = {
  '<': '&lt;',
  '>': '&gt;',
  '&': '&amp;',
  '"': '&quot;',
  "'": '&apos;',
};

/** Any input gives a result or this one kind of error. */
function parseOrRefuse(source: string): XmlElement | undefined {
  try {
    return parseXml(source);
  } catch (error) {
    expect(error).toBeInstanceOf(XmlInvalid);
    return undefined;
  }
}

describe('parseXml', () => {
  test('reads what was written', () => {
    const property = fc.property(tree, fc.nat({ max: 5 }), (element, seed) => {
      expect(parseXml(`<?xml version="1.0" encoding="UTF-8"?>\n${write(element, seed)}\n`)).toEqual(element);
    });
    fc.assert(property, { numRuns: 500 });
  });

  test('reads or refuses anything', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (source) => void parseOrRefuse(source)));
    const pieces = fc.constantFrom(
      '<',
      '>',
      '</',
      '/>',
      '<a',
      '<a>',
      '</a>',
      '&',
      '&lt;',
      '&#0;',
      ' ',
      '"',
      "'",
      '=',
      '<!',
      '<?',
      ']]>',
      'x',
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 40 }), (parts) => void parseOrRefuse(parts.join(''))),
      { numRuns: 2000 },
    );
  });

  test('a document with a byte changed, missing or doubled is read or refused', () => {
    const source = '<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Key a="b">x&amp;y</Key></Error>';
    const property = fc.property(
      fc.nat({ max: source.length }),
      fc.string({ maxLength: 2 }),
      fc.nat({ max: 3 }),
      (at, put, cut) => {
        parseOrRefuse(source.slice(0, at) + put + source.slice(at + cut));
      },
    );
    fc.assert(property, { numRuns: 2000 });
  });

  test('refuses what S3 does not send', () => {
    const bad = [
      '',
      'text',
      '<a>',
      '</a>',
      '<a></b>',
      '<a/><b/>',
      'x<a/>',
      '<a/>x',
      '<a>&nbsp;</a>',
      '<a>&#xD800;</a>',
      '<a>&#x110000;</a>',
      '<a>&</a>',
      '<a>]]></a>',
      '<a><![CDATA[x]]></a>',
      '<a><!-- x --></a>',
      '<a b=c/>',
      '<a><?php x?></a>',
      '<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>',
      '<a>'.repeat(9) + '</a>'.repeat(9),
      `<a>${'<b/>'.repeat(40_000)}</a>`,
    ];
    for (const source of bad) expect(() => parseXml(source)).toThrow(XmlInvalid);
    expect(parseXml('<a>'.repeat(8) + '</a>'.repeat(8)).name).toBe('a');
  });

  test('takes time proportional to the length of its input', () => {
    const length = 2_000_000;
    const nasty = [
      '<a'.repeat(length / 2),
      `<a${' '.repeat(length)}`,
      `<a ${'b="" '.repeat(length / 5)}`,
      '&'.repeat(length),
      `<a>${'&lt;'.repeat(length / 4)}`,
      `<?xml ${'x'.repeat(length)}`,
      ' '.repeat(length),
    ];
    const startedAt = performance.now();
    for (const source of nasty) parseOrRefuse(source);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  test('finds one element of a name, and two are an error', () => {
    const element = parseXml('<a><b>1</b><c>2</c><c>3</c><d><e/></d></a>');
    expect([findText(element, 'b'), findText(element, 'x')]).toEqual(['1', undefined]);
    for (const twice of ['c', 'd']) expect(() => findText(element, twice)).toThrow(XmlInvalid);
  });
});

describe('answers', () => {
  test('an error has a code, or none', () => {
    expect(parseErrorCode('<Error><Code>NoSuchKey</Code></Error>')).toBe('NoSuchKey');
    for (const other of [
      '',
      '<html><Code>x</Code></html>',
      '<Error/>',
      '<Error><Code>a b</Code></Error>',
      'busy',
    ]) {
      expect(parseErrorCode(other)).toBeUndefined();
    }
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (source) => void parseErrorCode(source)));
  });

  test('a page of keys goes on, or ends, and says so', () => {
    const page = (truncated: string, more: string) =>
      `<ListBucketResult>${more}<IsTruncated>${truncated}</IsTruncated><Contents><Key>a%2Fb%20c+d</Key></Contents></ListBucketResult>`;
    expect(parseKeyPage(page('false', ''))).toEqual({ keys: ['a/b c d'], next: undefined });
    const token = '<NextContinuationToken>t&amp;u</NextContinuationToken>';
    expect(parseKeyPage(page('true', token))).toEqual({ keys: ['a/b c d'], next: 't&u' });
    for (const bad of [
      page('true', ''),
      page('maybe', ''),
      '<DeleteResult/>',
      page('false', '<Contents/>'),
    ]) {
      expect(() => parseKeyPage(bad)).toThrow(XmlInvalid);
    }
    expect(parseKeyPage(page('false', '').replace('%2F', '%ff')).keys).toEqual(['a%ffb%20c+d']);
  });

  test('a batch names what is gone and what is not', () => {
    const outcome =
      '<DeleteResult xmlns="x"><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>C</Code></Error></DeleteResult>';
    expect(parseBatchOutcome(outcome)).toEqual({ deleted: ['a'], failed: [{ key: 'b', code: 'C' }] });
    expect(() => parseBatchOutcome('<DeleteResult><Deleted/></DeleteResult>')).toThrow(XmlInvalid);
  });

  test('a batch is XML that we can read ourselves', () => {
    const root = parseXml(formatDeleteBatch(['a/b', 'c']));
    expect(root.children.flatMap(({ children }) => children.map((child) => child.text))).toEqual([
      'a/b',
      'c',
    ]);
  });
});
