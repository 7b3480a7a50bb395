"""The MCP server: four tools for agents, over stdio or HTTP, in front of the one service of a home.

It runs once an agent, so it stays small: it holds no model, no store and no graph, and speaks gRPC.
"""
