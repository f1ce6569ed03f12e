"""WebShop: products, search, pages, goals, reward and the environments (`agentgym.webshop.env`)."""
