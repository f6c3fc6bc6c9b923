/** The operation that returns the points of plots. */
import { choice, optional } from './fields.ts';
import { operation } from './operation.ts';
import { COUNT, listOf, orNull, record, TEXT, TIMESTAMP } from './schemas.ts';

const APP_LOAD = record({ app: TEXT, requests: COUNT, errors: COUNT });

export const getHistory = operation({
  method: 'GET',
  path: 'history',
  right: 'read',
  summary:
    'Give what the server had to do since it started: a point a minute for a day, or an hour for 90 days',
  input: {
    resolution: optional(
      choice('The time from one point to the next; left out: minute.', ['minute', 'hour']),
    ),
  },
  output: record({
    startedAt: orNull(TIMESTAMP),
    points: listOf(
      record({
        ...{ at: TIMESTAMP, requests: COUNT, errors: COUNT, receivedBytes: COUNT, sentBytes: COUNT },
        apps: listOf(APP_LOAD, 'The Apps with the most requests.'),
      }),
      'The oldest first.',
    ),
  }),
  run: async ({ live }, { resolution = 'minute' }) => {
    return { startedAt: live?.startedAt ?? null, points: live?.history.points(resolution) ?? [] };
  },
});
