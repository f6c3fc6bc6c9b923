import { expect, test } from 'bun:test';
import { ScanProblems } from './scan-problem.ts';

test('a path of kilobytes does not bury what is said of it', () => {
  const problems = new ScanProblems(true);
  problems.add(`top/${'deep/'.repeat(900)}last`, 'named pipe');
  problems.add('short', 'socket');
  expect(() => problems.throwIfStrict()).toThrow(
    /^2 entries cannot be stored: top\/deep\/.{100,120}….{100,120}\/last \(named pipe\), short \(socket\)$/,
  );
});
