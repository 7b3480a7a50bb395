// The TypeScript SDK's client against a server of ours: what it negotiates, lists and is answered, as JSON.
// node mcp_client.mjs legacy|modern stdio COMMAND… | http URL TOKEN
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [era, kind, first, ...rest] = process.argv.slice(2);
const transport =
  kind === 'stdio'
    ? new StdioClientTransport({ command: first, args: rest, env: process.env })
    : new StreamableHTTPClientTransport(new URL(first), {
        requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
      });
const mode = era === 'modern' ? { pin: '2026-07-28' } : 'legacy';
const client = new Client({ name: 'typescript', version: '1' }, { versionNegotiation: { mode } });
await client.connect(transport);
const { tools } = await client.listTools();
const found = await client.callTool({ name: 'search', arguments: { query: 'backoff', k: 1 } });
const wrong = await client.callTool({ name: 'search', arguments: { query: ' ' } });
console.log(
  JSON.stringify({
    instructions: client.getInstructions(),
    tools: tools.map((tool) => tool.name),
    found,
    wrong,
  }),
);
await client.close();
